"""The launcher daemon: keeps as many actors running on its host as the learner orders."""
