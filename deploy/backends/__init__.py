"""Ways to start actors, one in each file; `base` has their common interface."""
