"""Ways to start actors, a file each; `base` says what each of them can do."""
