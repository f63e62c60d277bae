"""Decisions drawn from bytes: what a fuzzer changes in them, changes one decision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Choices:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    def __bool__(self) -> bool:
        """Whether there are bytes left."""
        return self._place < len(self._data)

    def take(self, count: int) -> bytes:
        """So many bytes, or those that are left."""
        taken = self._data[self._place : self._place + count]
        self._place += count
        return taken

    def byte(self) -> int:
        """0 behind the end."""
        return next(iter(self.take(1)), 0)

    def one_of(self, options: Sequence[T]) -> T:
        return options[self.byte() % len(options)]

    def number(self) -> int:
        """Mostly small, up to 64 bits, sometimes negative."""
        kind = self.byte()
        if kind < 160:
            return kind % 8
        value = int.from_bytes(self.take(1 + kind % 8), "little")
        return -value if kind >= 248 else value

    def real(self) -> float:
        """Any double, NaN and infinity among them, or a small number."""
        kind = self.byte()
        if kind < 160:
            return (kind - 80) / 8
        return float.fromhex(self.one_of(("nan", "inf", "-inf", "1e308", "-0x1p-1074", "0x1p64", "1e30", "-1e9")))
