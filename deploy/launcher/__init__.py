"""The launcher daemon: keeps as many actors running as the learner orders."""
