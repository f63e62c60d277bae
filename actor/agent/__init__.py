"""A trained agent from a run folder: load it, evaluate it, record it, show it."""
