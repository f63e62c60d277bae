"""Which groups of environments wait for actions, and when one pass through the network for all of them is due.

    unknown --begins--> waiting --pass--> answered --next step--> waiting
        any --begins--> waiting               any --its actor is gone--> unknown

A pass is due when `exchange.batch` observations wait, when the oldest has waited `exchange.batch_wait_ms`, or when all
groups wait.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from learner.exchange.rollout_buffer import GroupBuffer

GroupKey = tuple[bytes, int]
"""Routing id of the actor, number of the group."""


@dataclass
class Group:
    buffer: GroupBuffer
    step: int
    since: float
    """When its newest observations arrived."""
    answer: bytes | None = None
    """The actions for `step`; None while the group waits for them."""


class InferenceQueue:
    """The known groups. They are bounded: each actor has `exchange.groups`, and each group waits with one batch."""

    def __init__(self, sizes: Sequence[int], batch: int, wait_seconds: float) -> None:
        """`sizes`: number of environments in each group of an actor."""
        self._sizes = sizes
        self._batch = batch
        self._wait_seconds = wait_seconds
        self._groups: dict[GroupKey, Group] = {}
        self._waiting: dict[GroupKey, Group] = {}
        self._rows = 0

    @property
    def deadline(self) -> float:
        return next((group.since for group in self._waiting.values()), math.inf) + self._wait_seconds

    @property
    def is_full(self) -> bool:
        return self._rows >= self._batch or len(self._waiting) == len(self._groups)

    def get(self, key: GroupKey) -> Group | None:
        return self._groups.get(key)

    def enqueue(self, key: GroupKey, group: Group, step: int, now: float) -> None:
        self._remove(key)
        group.step = step
        group.since = now
        group.answer = None
        self._groups[key] = self._waiting[key] = group
        self._rows += self._sizes[key[1]]

    def dequeue_all(self) -> dict[GroupKey, Group]:
        """Remove and return all waiting groups, the oldest first."""
        waiting, self._waiting = self._waiting, {}
        self._rows = 0
        return waiting

    def left(self, routing_id: bytes) -> None:
        """Forget the groups of an actor that is gone, with their unfinished rollouts."""
        for key in [key for key in self._groups if key[0] == routing_id]:
            self._remove(key)
            del self._groups[key]

    def _remove(self, key: GroupKey) -> None:
        if self._waiting.pop(key, None) is not None:
            self._rows -= self._sizes[key[1]]
