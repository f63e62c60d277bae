"""Exploration and the losses of all algorithms, as pure functions on arrays of either kind of `common.rl.arrays`.

On a CPU they are numpy arrays: they are small (steps x environments) and the recursions over time make many calls; a
call of numpy costs a fraction of a call of torch.
"""
