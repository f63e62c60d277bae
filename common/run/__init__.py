"""A run as files: its folder, its status, presets of settings."""
