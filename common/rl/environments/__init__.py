"""Environments: batches that are stepped together, in one process, with gymnasium's next-step reset."""
