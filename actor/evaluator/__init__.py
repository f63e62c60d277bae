"""The evaluator daemon: plays whole episodes with weights that the learner gives it, and tells the learner how."""
