"""How long to wait before something is tried again."""


class Backoff:
    """Pauses of which each is twice as long as the one before, from `first` up to `longest` seconds."""

    def __init__(self, first: float, longest: float) -> None:
        self._first = first
        self._longest = longest
        self._next = first

    def next(self) -> float:
        """Seconds until the next try."""
        pause = self._next
        self._next = min(2 * pause, self._longest)
        return pause

    def reset(self) -> None:
        """It went well: the next pause is the first again."""
        self._next = self._first
