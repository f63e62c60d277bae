"""A trained agent from a run folder: load, evaluate, record or show it. Lengths are in steps of the agent."""

EPISODE_STEPS = 27_000
"""Cap on an evaluated, recorded or shown episode: half an hour of an Atari game at 4 frames a step, the usual cap."""
GIF_STEPS = 1_000
"""Cap on a GIF, all its episodes together: Pillow holds every picture in memory until the file is written."""
