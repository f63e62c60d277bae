"""Measures the length of the run's first episodes, with which later ones are compared."""


class FirstEpisodes:
    def __init__(self, size: int) -> None:
        """`size`: number of first episodes. Short ones end first, so there must be several for each environment."""
        self._size = size
        self._count = 0
        self._steps = 0

    def add(self, length: int) -> float | None:
        """Add an episode of `length` steps; return the mean length once there are enough and they had any steps."""
        self._count += 1
        self._steps += max(0, length)
        return self._steps / self._count if self._count >= self._size and self._steps else None
