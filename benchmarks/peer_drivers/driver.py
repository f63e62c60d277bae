"""The common part of all peers' drivers: their arguments, the window of returns, and the line that they print.

A peer's own interpreter runs its driver; it has numpy and gymnasium, but a3cd is not installed there.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version

import gymnasium
import numpy as np

WINDOW = 100
"""Number of episodes whose mean return is compared with the goal."""
LONGEST_EPISODE = 27_000
"""Cap on an episode of the trained agent, in steps, as in `a3cd evaluate`."""


@dataclass(frozen=True)
class Order:
    """What to train, and for how long."""

    environment: str
    seed: int
    seconds: float
    goal: float
    """Mean training return that ends the training; infinity: no return does."""
    episodes: int
    """Number of episodes to play with the last weights and the most likely actions."""
    threads: int = 1
    """Number of torch's threads in each process."""


def read_order() -> Order:
    parser = argparse.ArgumentParser()
    parser.add_argument("--environment", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--goal", type=float, default=float("inf"))
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    return Order(**vars(parser.parse_args()))


class Progress:
    """Progress of a training: when it began and ended, its frames, its newest returns."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._returns: deque[float] = deque(maxlen=WINDOW)
        self._ended = 0.0
        self.began = 0.0
        """When training began, in seconds since 1970 like all times here; 0: not yet."""
        self.frames = 0
        self.reached = False

    def begin(self) -> None:
        """Note the time; call this right before the first frame."""
        self.began = time.time()

    @property
    def begun(self) -> bool:
        return self.began > 0.0

    def episode(self, total: float) -> None:
        """Note an episode that has ended with this return."""
        self._returns.append(total)

    def over(self) -> bool:
        """Return whether the goal is reached or the time is up; call it often, until it returns True."""
        now = time.time()
        if not self._ended:
            self.reached = len(self._returns) == WINDOW and float(np.mean(self._returns)) >= self._order.goal
            if self.reached or now - self.began >= self._order.seconds:
                self._ended = now
        return bool(self._ended)

    def report(self, packages: Sequence[str], played: Sequence[float]) -> None:
        """Print the result line; packages: packages whose versions it states; played: returns of the trained agent."""
        ended = self._ended or time.time()
        result = {
            "versions": {
                "python": sys.version.split()[0],
                **{name: version(name) for name in (*packages, "torch", "gymnasium", "numpy")},
            },
            "began": self.began,
            "ended": ended,
            "frames": self.frames,
            "reached": self.reached,
            "training_return": float(np.mean(self._returns)) if self._returns else None,
            "return": float(np.mean(played)) if len(played) else None,
        }
        print(json.dumps(result), flush=True)


def register() -> None:
    """Register the environments of other packages, without window and sound."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    import ale_py
    import flappy_bird_gymnasium  # noqa: F401

    if hasattr(gymnasium, "register_envs"):  # needed since gymnasium 1.0; before, the package's entry point did it
        gymnasium.register_envs(ale_py)


def options(environment: str) -> dict[str, bool]:
    """Return options with which FlappyBird shows its twelve features, as in a3cd, instead of 180 rays."""
    return {"use_lidar": False} if environment == "FlappyBird-v0" else {}
