"""While exchange.kind = "auto" is open: actors tell what their first rollouts took, and the learner decides once.

It does when every actor in the run has told, or `PATIENCE_SECONDS` after the first. If none does, all stays as it is.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection
from typing import Protocol

from common.errors import RefusedError
from common.settings.sections import Settings
from common.wire.messages import Hello, Trial
from learner.choice import Choice, Conditions, Costs, choose
from learner.peers import Peer, Peers

PATIENCE_SECONDS = 5.0
"""For actors that have not told, after the first that has."""


class Undecided(Protocol):
    """A store that takes gradients, and can go over to trajectories (learner/undecided.py)."""

    def costs(self) -> Costs:
        """What it has measured; may take a moment."""

    def change_over(self) -> None:
        """From now on what is added are trajectories; nothing may wait."""


class Trials:
    """What was told so far, by incarnation of actors."""

    def __init__(
        self, store: Undecided, host: str, choose_codec: Callable[[Collection[str], bool], str], settings: Settings
    ) -> None:
        """`choose_codec`: of trajectories; `host`: the learner's."""
        self.store, self._host, self._choose_codec, self._settings = store, host, choose_codec, settings
        self._told: dict[tuple[str, str], Trial] = {}
        self.deadline = math.inf
        """When it is decided without those who have not told."""

    def codec(self, hello: Hello) -> str:
        """What this actor's trajectories would be packed with; empty: it speaks none, and is not asked."""
        try:
            return self._choose_codec(hello.codecs, hello.host == self._host)
        except RefusedError:
            return ""

    def told(self, now: float, peer: Peer, trial: Trial) -> None:
        """An actor has told; of each the first counts."""
        self._told.setdefault((peer.hello.name, peer.hello.incarnation), trial)
        self.deadline = min(self.deadline, now + PATIENCE_SECONDS)

    def decide(self, now: float, peers: Peers) -> Choice | None:
        """What is chosen, if it is time."""
        present = [peer for _, peer in peers.role("actor")]
        silent = any((peer.hello.name, peer.hello.incarnation) not in self._told for peer in present)
        if not (self._told and (now >= self.deadline or not silent)):
            return None
        return choose(list(self._told.values()), self.store.costs(), self._conditions(present))

    def _conditions(self, present: list[Peer]) -> Conditions:
        scaling, exchange = self._settings.scaling, self._settings.exchange
        expected = scaling.minimum if scaling.policy == "fixed" else scaling.maximum
        here = sum(peer.hello.host == self._host for peer in present)
        return Conditions(
            actors=max(1, expected, len(present)),
            here=here / max(1, len(present)),
            processors=_processors(),
            link_mbit=exchange.link_mbit,
            accumulate=exchange.accumulate,
            credit=exchange.credit,
            coalesce=exchange.coalesce,
            busy_limit=scaling.busy_limit,
        )


def _processors() -> int:
    """Those that this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)  # not on every platform
    return len(allowed(0)) if allowed else os.cpu_count() or 1
