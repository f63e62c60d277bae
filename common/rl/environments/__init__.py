"""Environments: batches of copies that are stepped as one, in one process, with gymnasium's next-step reset."""
