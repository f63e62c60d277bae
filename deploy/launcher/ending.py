"""How long a launcher that ends waits for its actors."""

import math

from deploy.launcher.reconciler import GRACE_SECONDS

LEAVE_SECONDS = 3.0
"""Time after a final stop in which actors may leave by themselves: the learner has told them, too."""
ABANDON_SECONDS = 1.0
"""Time after SIGKILL: a process that is still there then hangs in the kernel, and is not waited for."""
TOOLS_SECONDS = 120.0
"""Time for tools (ssh, squeue, ...) to show actors and ask them to stop: each may take a minute."""


class Ending:
    """The times at which a launcher ends although actors are left.

    Actors that only the launcher keeps end with it in any case. Others play on if nobody asked them to stop, so it
    waits longer for the tools that do this.
    """

    def __init__(self) -> None:
        self._abandon_at = math.inf
        self._give_up_at = math.inf

    def begin(self, now: float, patience: float) -> None:
        """Actors are asked to leave in `patience` seconds; an end that has begun before gets no longer."""
        asked = now + patience
        self._abandon_at = min(self._abandon_at, asked + GRACE_SECONDS + ABANDON_SECONDS)
        self._give_up_at = min(self._give_up_at, asked + TOOLS_SECONDS)

    def late(self, now: float) -> bool:
        """Whether all actors should be gone by now."""
        return now >= self._abandon_at

    def over(self, now: float, unasked: bool) -> bool:
        """Whether the launcher waits no longer; `unasked`: actors that would play on have not been asked to stop."""
        return now >= (self._give_up_at if unasked else self._abandon_at)

    def rest(self, now: float) -> float:
        """Seconds left for the tools."""
        return max(0.0, self._give_up_at - now)
