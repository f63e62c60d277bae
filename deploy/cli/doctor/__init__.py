"""`a3cd doctor`: check this machine and the connection to a learner, and say how to mend what is wrong."""
