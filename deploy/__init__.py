"""The launcher daemon, its ways to start actors, and the `a3cd` command."""
