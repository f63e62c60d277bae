"""The rule that decides when an actor or an evaluator gives up because its environments keep failing."""

from common.errors import A3cdError, UnavailableError

FAILURES_IN_A_ROW = 10
FAILING_SECONDS = 2.0
"""Both limits must be reached: where a rollout takes a millisecond, ten failures alone come too quickly."""


class FailureRule:
    """Counts failures in a row; until there are too many, the worker drops what failed and begins new episodes."""

    def __init__(self) -> None:
        self._count = 0
        self._since = 0.0

    def succeeded(self) -> None:
        """All environments that had failed have played on since: the count starts again at zero."""
        self._count = 0

    def failed(self, now: float, error: A3cdError) -> None:
        """Raises UnavailableError when there have been too many failures in a row for too long."""
        if not self._count:
            self._since = now
        self._count += 1
        if self._count >= FAILURES_IN_A_ROW and now - self._since >= FAILING_SECONDS:
            raise UnavailableError(f"gave up after {self._count} failures in a row: {error}")
