"""A trained agent from a run folder: load it, evaluate it, record it, show it. Lengths are in steps of the agent."""

EPISODE_STEPS = 27_000
"""The longest evaluated, filmed or shown episode: half an hour of an Atari game with 4 frames a step, as is usual."""
GIF_STEPS = 1_000
"""The longest GIF, all its episodes together: Pillow holds every picture in memory until the file is written."""
