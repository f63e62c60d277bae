"""Exploration and the losses of all algorithms, as pure functions on numpy arrays.

The arrays are small and the recursions over time make many calls, of which numpy's cost a fraction of torch's.
"""
