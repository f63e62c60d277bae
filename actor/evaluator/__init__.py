"""The evaluator daemon: plays whole episodes with weights from the learner, and reports their returns to it."""
