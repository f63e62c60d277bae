"""Who may speak to whom: CURVE keys, the learner's list of allowed peers, what a peer keeps of its learner."""
