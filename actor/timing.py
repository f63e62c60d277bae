"""The first rollouts of a run whose exchange is open: what they take as gradients, and would take as trajectories."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from common.rl.rollout import Rollout
from common.wire.bodies.trajectory import TrajectoryFormat, usable
from common.wire.messages import Trial

ROLLOUTS = 3
"""Timed after the first, which warms up. Of each figure the smallest counts: other programs only ever add to it."""


class Timing:
    """Keeps books beside the work; changes nothing of it."""

    def __init__(self, packing: TrajectoryFormat, codec: str) -> None:
        """`packing`, `codec`: of the trajectories that are not sent."""
        self._packing, self._codec = packing, codec
        self._playing = (0.0, 0.0)
        self._rollouts = 0
        self._seconds: dict[str, float] = {}
        self._bytes: dict[str, int] = {}

    @contextmanager
    def play(self) -> Iterator[None]:
        """Round a slice of playing."""
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        before = self._playing
        self._playing = before[0] + time.perf_counter() - wall, before[1] + time.process_time() - cpu

    def rollout(self, rollout: Rollout, gradient_seconds: float) -> None:
        """A rollout is complete, its gradient took so long."""
        (play, play_cpu), self._playing = self._playing, (0.0, 0.0)
        if not usable(rollout):
            return
        started = time.perf_counter()
        body = self._packing.pack([rollout], self._codec)
        packing = time.perf_counter() - started
        self._rollouts += 1
        if self._rollouts > 1:
            self._took(play=play, play_cpu=play_cpu, gradient=gradient_seconds, trajectory_packing=packing)
            self._bytes["trajectory_bytes"] = max(self._bytes.get("trajectory_bytes", 0), len(body))

    def packed(self, size: int, seconds: float) -> None:
        """A gradient was packed to `size` bytes."""
        self._took(gradient_packing=seconds)
        self._bytes["gradient_bytes"] = max(self._bytes.get("gradient_bytes", 0), size)

    def restart(self) -> None:
        """The rollout under way is dropped."""
        self._playing = (0.0, 0.0)

    def trial(self) -> Trial | None:
        """What to tell, but for the way to the learner; None: not everything has been seen often enough."""
        if self._rollouts <= ROLLOUTS or "gradient_bytes" not in self._bytes:
            return None
        return msgspec.convert({**self._seconds, **self._bytes}, Trial)

    def _took(self, **seconds: float) -> None:
        for name, value in seconds.items():
            self._seconds[name] = min(value, self._seconds.get(name, value))
