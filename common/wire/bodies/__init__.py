"""The payloads of messages: trajectories, observations, weights."""
