"""The two kinds of player: one computes gradients or trajectories, one holds environments only."""
