"""How long the run's first episodes were: what later ones are compared with."""


class FirstEpisodes:
    def __init__(self, size: int) -> None:
        """`size`: how many count. The first to end are short ones: there must be several for each environment."""
        self._size = size
        self._count = 0
        self._steps = 0

    def add(self, length: int) -> float | None:
        """One more of `length` steps; the mean, once there are enough and they had any."""
        self._count += 1
        self._steps += max(0, length)
        return self._steps / self._count if self._count >= self._size and self._steps else None
