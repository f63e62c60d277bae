"""Reinforcement learning without any communication: environments, networks, distributions, algorithms."""
