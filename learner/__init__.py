"""The learner daemon: holds the weights, takes gradients, says how many actors it wants."""
