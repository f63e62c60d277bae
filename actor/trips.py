"""How long the learner takes to answer, of a gradient and of a heartbeat, which has no body."""

from __future__ import annotations

import math

import msgspec

from common.wire.messages import Trial


class Trips:
    """The shortest of each; what is sent again counts from then."""

    def __init__(self) -> None:
        """Nothing has been answered yet."""
        self._beat = math.nan
        self._gradient = self._heartbeat = math.inf

    @property
    def known(self) -> bool:
        """Whether a gradient has been answered."""
        return self._gradient < math.inf

    def beat(self, now: float) -> None:
        """A heartbeat leaves."""
        self._beat = now

    def beaten(self, now: float) -> None:
        """A heartbeat was answered."""
        self._heartbeat = min(self._heartbeat, now - self._beat)

    def answered(self, seconds: float) -> None:
        """A gradient was answered after so long."""
        self._gradient = min(self._gradient, seconds)

    def added_to(self, trial: Trial) -> Trial:
        """With both; a heartbeat that took longer was held up by something else."""
        latency = min(self._heartbeat, self._gradient)
        return msgspec.structs.replace(trial, round_trip=self._gradient, latency=latency)
