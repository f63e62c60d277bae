"""A cable of userspace between two TAP devices, for kernels that cannot delay and lose packets themselves.

    parent --settings, a line of JSON--> this file as a process --what it has done so far, a line of JSON--> parent

The process ends at the end of its standard input. It needs nothing but the standard library.
"""

from __future__ import annotations

import contextlib
import ctypes
import heapq
import json
import os
import random
import select
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

Packet = tuple[int, bytes]
"""The side it comes out of, and the bytes."""
QUEUE = 256
"""Packets that wait on each side before the next is dropped, as in a router."""
LARGEST = 2048


@dataclass(frozen=True)
class Quality:
    """Of a cable; each way has its own rate and queue."""

    delay_seconds: float = 0.0
    """One way."""
    mbit: float = 0.0
    """0: as fast as it goes."""
    loss: float = 0.0
    """Fraction of packets."""
    cut: tuple[bool, bool] = (False, False)
    """What is sent from the first end is lost, what is sent from the second."""
    snap: int = 0
    """Both ways are cut as soon as a packet of at least so many bytes from the first end has come through; 0: not."""


class Cable:
    """Packets in and the time; packets out when they are due, in the order they came."""

    def __init__(self, seed: int) -> None:
        """A perfect one. The n-th packet is lost or not by `seed` alone."""
        self.quality = Quality()
        self.counts: Counter[str] = Counter()
        self._random = random.Random(seed)
        self._queue: list[tuple[float, int, int, bytes]] = []
        self._number = 0
        self._free, self._last, self._waiting = [0.0, 0.0], [0.0, 0.0], [0, 0]

    def put(self, now: float, side: int, packet: bytes) -> None:
        """A packet that comes in at `side`."""
        quality = self.quality
        unlucky = self._random.random() < quality.loss
        if quality.cut[side] or unlucky or self._waiting[side] >= QUEUE:
            self.counts["cut" if quality.cut[side] else "lost" if unlucky else "dropped"] += 1
            return
        sent = now
        if quality.mbit:
            self._free[side] = sent = max(self._free[side], now) + len(packet) * 8 / (quality.mbit * 1e6)
        due = self._last[side] = max(self._last[side], sent + quality.delay_seconds)
        self._number += 1
        self._waiting[side] += 1
        heapq.heappush(self._queue, (due, self._number, side, packet))

    def take(self, now: float) -> Iterator[Packet]:
        """What has arrived by now. What was under way when the cable was cut is lost."""
        while self._queue and self._queue[0][0] <= now:
            _, _, side, packet = heapq.heappop(self._queue)
            self._waiting[side] -= 1
            self.counts["cut" if self.quality.cut[side] else "carried"] += 1
            if not self.quality.cut[side]:
                if side == 0 and 0 < self.quality.snap <= len(packet):
                    self.quality = replace(self.quality, cut=(True, True), snap=0)
                yield 1 - side, packet

    @property
    def due(self) -> float | None:
        """When the next packet arrives."""
        return self._queue[0][0] if self._queue else None


class Wire:
    """The parent's end of the process."""

    def __init__(self, first: tuple[str, str], second: tuple[str, str], seed: int) -> None:
        """Makes both devices, each given as its network namespace's file and its name."""
        self._process = subprocess.Popen(
            [sys.executable, "-I", __file__, *first, *second, str(seed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._quality = Quality()
        try:
            self._ask({})
        except BaseException:
            self.close()
            raise

    def set(self, **changes: object) -> None:
        """Changes its quality; it is so when this returns."""
        self._quality = replace(self._quality, **changes)  # type: ignore[arg-type]
        self._ask(asdict(self._quality))

    def count(self, what: str) -> int:
        """Packets that were carried, lost, cut or dropped (by a full queue)."""
        return int(self._ask({})["counts"].get(what, 0))

    @property
    def is_cut(self) -> bool:
        """Both ways."""
        return all(self._ask({})["cut"])

    def _ask(self, told: dict[str, object]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # the answer, or its absence, tells
            self._process.stdin.write(json.dumps(told).encode() + b"\n")
            self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("the wire broke: its process has ended")
        found: dict[str, Any] = json.loads(answer)
        return found

    def cut(self, *, out: bool = True, back: bool = True) -> None:
        """Nothing gets through any more: from the first end (`out`), from the second (`back`)."""
        self.set(cut=(out, back), snap=0)

    def mend(self) -> None:
        """As good as it was before it was cut."""
        self.set(cut=(False, False), snap=0)

    def close(self) -> None:
        """The devices are gone with the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _tap(namespace: str, device: str) -> int:
    """A descriptor of a new TAP device in that network namespace; this process stays there."""
    import fcntl

    there = os.open(namespace, os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(there, 0x40000000) != 0:  # CLONE_NEWNET
        raise OSError(ctypes.get_errno(), "setns", namespace)
    os.close(there)
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    request = struct.pack("16sH22x", device.encode(), 0x1002)  # IFF_TAP | IFF_NO_PI
    fcntl.ioctl(descriptor, 0x400454CA, request)  # TUNSETIFF
    return descriptor


def _carry(descriptors: tuple[int, int], cable: Cable) -> None:
    """Until the end of standard input."""
    poll = select.poll()
    for descriptor in (0, *descriptors):
        poll.register(descriptor, select.POLLIN)
    while True:
        due = cable.due
        ready = poll.poll(None if due is None else max(0.0, due - time.monotonic()) * 1e3)
        for side, descriptor in enumerate(descriptors):
            with contextlib.suppress(OSError):  # BlockingIOError: all read; anything else: the device is down
                for _ in range(QUEUE):
                    cable.put(time.monotonic(), side, os.read(descriptor, LARGEST))
        for side, packet in cable.take(time.monotonic()):
            with contextlib.suppress(OSError):
                os.write(descriptors[side], packet)
        if any(descriptor == 0 for descriptor, _ in ready):
            line = sys.stdin.readline()
            if not line:
                return
            told = json.loads(line)
            if told:
                cable.quality = Quality(**{**told, "cut": tuple(told["cut"])})
            print(json.dumps({"counts": cable.counts, "cut": cable.quality.cut}), flush=True)


if __name__ == "__main__":
    _carry((_tap(*sys.argv[1:3]), _tap(*sys.argv[3:5])), Cable(int(sys.argv[5])))
