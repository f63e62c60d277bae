"""The relay daemon, between a learner and the actors of one site: adds up their gradients, passes on its weights."""
