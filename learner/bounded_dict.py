"""A dictionary of bounded size, for what is remembered of peers: they choose their names, so could fill the memory."""

from collections import OrderedDict
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedDict(OrderedDict[K, V]):
    """Keeps the `most` keys that were set last, ordered from the oldest to the newest."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        OrderedDict.__setitem__(self, key, value)
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)
