"""Run settings: sections, reading and writing them as TOML, checks."""
