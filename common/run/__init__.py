"""A run: its folder, its status, presets of settings."""
