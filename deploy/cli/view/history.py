"""The mean return over a whole run, in bounded memory."""

from __future__ import annotations

from common.run.status import RunStatus

MAX_POINTS = 256
"""When there are more, every second one is dropped, and from then on points are taken half as often."""


class History:
    """What the live panel shows beyond a run's newest status: the course of the mean return."""

    def __init__(self) -> None:
        self.returns: list[float] = []
        self._every = 1
        self._until_point = 0

    def add(self, status: RunStatus) -> None:
        """Add the next status of the same run."""
        if status.mean_return is None:
            return
        if self._until_point == 0:
            self.returns.append(status.mean_return)
            self._until_point = self._every
        self._until_point -= 1
        if len(self.returns) == MAX_POINTS:
            self.returns = self.returns[::2]
            self._every *= 2
