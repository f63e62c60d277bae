"""How long to wait before something is tried again."""


class Backoff:
    """Pauses that double each time, from `first` up to `longest` seconds."""

    def __init__(self, first: float, longest: float) -> None:
        self._first = first
        self._longest = longest
        self._next = first

    def next(self) -> float:
        """Return the seconds until the next try."""
        pause = self._next
        self._next = min(2 * pause, self._longest)
        return pause

    def reset(self) -> None:
        """After a success, begin with the first pause again."""
        self._next = self._first
