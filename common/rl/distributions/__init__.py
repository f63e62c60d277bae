"""Distributions of actions from a network's outputs: sampling, log-probabilities, and derivatives by hand.

Arrays are of either kind of `common.rl.arrays`, one row per state. Derivatives are written out: autograd's record of a
loss of this size costs more than a dense network (CartPole, 320 steps, one thread: 200 us instead of 700).
"""
