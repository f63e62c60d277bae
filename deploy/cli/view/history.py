"""What the panel remembers of a run beyond its newest status, in bounded memory."""

from __future__ import annotations

from common.run.status import RunStatus

MAX_POINTS = 256
"""Of the course; when they are full every second is forgotten, and points come half as often from then on."""
RATE_STATUSES = 8
"""Traffic is measured over so many statuses."""


class History:
    """The course of the mean return over the whole run, and the traffic of the last seconds."""

    def __init__(self) -> None:
        self.returns: list[float] = []
        self._every = 1
        self._until_point = 0
        self._traffic: list[tuple[float, int, int]] = []

    def add(self, status: RunStatus) -> None:
        """The next status of the same run."""
        point = (status.seconds, status.gradient_bytes, status.weight_bytes)
        if self._traffic and any(new < old for new, old in zip(point, self._traffic[-1], strict=True)):
            self._traffic.clear()  # the learner came back from an older checkpoint
        self._traffic = [*self._traffic[1 - RATE_STATUSES :], point]
        if status.mean_return is not None:
            self._add_return(status.mean_return)

    def rates(self) -> tuple[float, float] | None:
        """Bytes per second into the learner (gradients) and out of it (weights); None: too little to tell by."""
        if len(self._traffic) < 2:
            return None
        (start, gradients, weights), (end, more_gradients, more_weights) = self._traffic[0], self._traffic[-1]
        if end <= start:
            return None
        return (more_gradients - gradients) / (end - start), (more_weights - weights) / (end - start)

    def _add_return(self, mean_return: float) -> None:
        if self._until_point == 0:
            self.returns.append(mean_return)
            self._until_point = self._every
        self._until_point -= 1
        if len(self.returns) == MAX_POINTS:
            self.returns = self.returns[::2]
            self._every *= 2
