"""Exploration and the losses of all algorithms, as pure functions on numpy arrays.

The arrays are small (steps x environments) and the recursions over time make many calls; a call of numpy costs a
fraction of one of torch.
"""
