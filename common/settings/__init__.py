"""Run settings: the sections, and reading and writing them as TOML."""
