"""Reinforcement learning without a network of hosts: environments, networks, distributions, algorithms."""
