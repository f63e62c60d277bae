"""`a3cd tune`: a search for settings, each trial of which is a real training."""
