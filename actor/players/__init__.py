"""Players, one per kind of exchange: gradients, trajectories, or environments whose actions the learner chooses."""
