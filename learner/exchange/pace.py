"""How fast one actor's contributions are answered: at most MOST times as fast as the middle actor's.

An actor that waits for its answers, and sends more than it can have played, would take most of the steps and make the
others' contributions stale. Beyond this pace its answers wait, and it with them; nothing is refused. Rollouts over the
same seconds are compared, so a learner that stands still, or is slow, holds nobody back. A relay may be as fast as all
the actors that it stands for.
"""

from collections import deque

from common.wire.protocol import SENDERS
from learner.peers import Peers

MOST = 8.0
"""Times the middle actor's rollouts: hosts differ by less, and the others' lag stays within the default limit."""
LEAST_ACTORS = 4
"""Of three nobody can tell who is the unusual one."""
LEAST_ROLLOUTS = 4
"""Of the middle actor in a window."""
WINDOW_SECONDS = 1.0
"""At least."""
WINDOWS = 5
"""The fastest of so many counts: one in which the learner stood still says nothing."""
TOLD_SECONDS = 60.0
"""For so long it is told of an actor that was held back."""


class Pace:
    """Times are seconds of a monotonic clock, actors go by their names: a new process goes on at its pace."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._counts: dict[str, float] = {}
        """Rollouts of one actor in this window, of those senders that played already when it began."""
        self._begun = 0.0
        self._look_due = 0.0
        self._rates: deque[float] = deque(maxlen=WINDOWS)
        """Rollouts a second of the middle actor."""
        self._seconds = 0.0
        """That each rollout must take; 0: no limit."""
        self._paid: dict[str, float] = {}
        """Until when each actor's rollouts would have taken it at that pace."""
        self._held: dict[str, float] = {}
        """When answers to an actor were held back last."""

    def sent(self, now: float, name: str, rollouts: int, actors: int = 1) -> float:
        """An actor, or a relay of so many `actors`, sent so many rollouts; returns when they may be answered."""
        each = rollouts / max(1, actors)
        if name in self._counts:
            self._counts[name] += each
        if now >= self._look_due:
            self._look(now)
        if not self._seconds:
            return now
        paid = self._paid[name] = max(self._paid.get(name, now), now) + each * self._seconds
        until = paid - MOST * self._seconds  # whoever was slow before may be quick for as long as the middle rollout
        if until > now:
            self._held[name] = now
        return until

    def named(self) -> list[str]:
        """Actors that were held back lately, in words."""
        times = f"more than {MOST:g} times as often as the middle actor"
        return [f"{name} sends {times}: it waits longer for its answers" for name in sorted(self._held)]

    def _look(self, now: float) -> None:
        self._look_due = now + WINDOW_SECONDS
        self._paid = {name: until for name, until in self._paid.items() if until > now}
        self._held = {name: since for name, since in self._held.items() if now - since < TOLD_SECONDS}
        senders = [peer for role in SENDERS for _, peer in self._peers.role(role)]
        playing = {peer.hello.name for peer in senders if peer.plays}
        counts = sorted(count for name, count in self._counts.items() if name in playing)
        if len(playing) < LEAST_ACTORS:
            self._rates.clear()
            self._seconds = 0.0
        elif len(counts) >= LEAST_ACTORS:
            middle = counts[len(counts) // 2]
            if middle < LEAST_ROLLOUTS:
                return  # the window goes on
            self._rates.append(middle / (now - self._begun))
            self._seconds = 1.0 / (MOST * max(self._rates))
        self._counts = dict.fromkeys(playing, 0.0)
        self._begun = now
