"""The learner daemon: it holds the weights, applies gradients, and decides how many actors it wants."""
