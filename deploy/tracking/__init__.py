"""A run shown in Weights & Biases or MLflow, by a process that reads its folder: the learner knows nothing of it."""
