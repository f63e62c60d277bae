"""A run: its folder, its status and metrics, presets of settings."""
