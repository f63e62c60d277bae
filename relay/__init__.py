"""Between a learner and the actors of one site: their gradients added up, its weights passed on."""
