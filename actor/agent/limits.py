"""How long a trained agent plays, in steps of the agent, unless `--max-steps` says otherwise."""

from __future__ import annotations

EPISODE_STEPS = 27_000
"""The longest evaluated, filmed or shown episode: half an hour of an Atari game with 4 frames a step, as is usual."""
GIF_STEPS = 1_000
"""The longest GIF, all its episodes together: Pillow holds every picture in memory until the file is written."""
