"""What the drivers of all peers share: their arguments, the window of returns, and the one line that they print.

A driver is run by its peer's own interpreter, which has Python, numpy and gymnasium but nothing of a3cd.
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
"""Episodes whose mean return is compared with the goal."""
LONGEST_EPISODE = 27_000
"""In steps, when the trained agent plays; as `a3cd evaluate` has it."""


@dataclass(frozen=True)
class Order:
    """What to train, and for how long."""

    environment: str
    seed: int
    seconds: float
    goal: float
    """Mean training return that ends the training; infinity: none does."""
    episodes: int
    """To play with the last weights and the likeliest actions."""
    threads: int
    """Of torch, in each process."""


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
    """Of a training: when it began and ended, its frames, its newest returns."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._returns: deque[float] = deque(maxlen=WINDOW)
        self._ended = 0.0
        self.began = 0.0
        """In seconds since 1970, as all times here; 0: not yet."""
        self.frames = 0
        self.reached = False

    def begin(self) -> None:
        """Right before the first frame."""
        self.began = time.time()

    @property
    def begun(self) -> bool:
        return self.began > 0.0

    def episode(self, total: float) -> None:
        """One has ended with this return."""
        self._returns.append(total)

    def over(self) -> bool:
        """Whether the goal is reached or the time is up; to be asked often, and until it says so."""
        now = time.time()
        if not self._ended:
            self.reached = len(self._returns) == WINDOW and float(np.mean(self._returns)) >= self._order.goal
            if self.reached or now - self.began >= self._order.seconds:
                self._ended = now
        return bool(self._ended)

    def report(self, packages: Sequence[str], played: Sequence[float]) -> None:
        """Prints the line; packages: whose versions it tells; played: the returns of the trained agent."""
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
    """Makes the environments of other packages known, without window and sound."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    import ale_py
    import flappy_bird_gymnasium  # noqa: F401

    if hasattr(gymnasium, "register_envs"):  # gymnasium 1.0 asks for it, and before it the package's entry point did
        gymnasium.register_envs(ale_py)


def options(environment: str) -> dict[str, bool]:
    """FlappyBird's twelve features, as a3cd plays it, instead of 180 rays."""
    return {"use_lidar": False} if environment == "FlappyBird-v0" else {}
