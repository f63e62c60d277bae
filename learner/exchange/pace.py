"""How fast one actor's contributions are answered: at most MOST times as fast as those of the median actor.

An actor that waits for its answers, but sends more than it can have played, would take most of the steps and make the
others' contributions stale. Beyond this pace its answers are delayed, and so is the actor; nothing is refused. The pace
compares rollouts over the same seconds, so a learner that is slow or stands still holds nobody back. A relay may be as
fast as all the actors that it stands for.
"""

from collections import deque

from common.wire.protocol import SENDERS
from learner.peers import Peers

MOST = 8.0
"""Multiple of the median actor's pace: hosts differ by less, and the others' lag stays within the default limit."""
LEAST_ACTORS = 4
"""Actors needed for a limit: among three, it is not clear which one is unusual."""
LEAST_ROLLOUTS = 4
"""Rollouts of the median actor needed before a window may end."""
WINDOW_SECONDS = 1.0
"""Shortest window."""
WINDOWS = 5
"""The fastest of this many last windows counts: one in which the learner stood still says nothing."""
TOLD_SECONDS = 60.0
"""How long an actor is reported after its answers were last held back."""


class Pace:
    """Times are seconds of a monotonic clock. Actors go by their names: a new process inherits the pace of its name."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._counts: dict[str, float] = {}
        """Rollouts in this window, by sender, of those that already played when it began; a relay's are per actor."""
        self._begun = 0.0
        self._look_due = 0.0
        self._rates: deque[float] = deque(maxlen=WINDOWS)
        """Rollouts per second of the median actor in the last windows."""
        self._seconds = 0.0
        """Least seconds that each rollout must take; 0: no limit."""
        self._paid: dict[str, float] = {}
        """Time until which each actor's rollouts would have taken at that pace."""
        self._held: dict[str, float] = {}
        """When answers to each actor were last held back."""

    def sent(self, now: float, name: str, rollouts: int, actors: int = 1) -> float:
        """Count rollouts from an actor, or from a relay of `actors`; return when they may be answered."""
        each = rollouts / max(1, actors)
        if name in self._counts:
            self._counts[name] += each
        if now >= self._look_due:
            self._look(now)
        if not self._seconds:
            return now
        paid = self._paid[name] = max(self._paid.get(name, now), now) + each * self._seconds
        until = paid - MOST * self._seconds  # a burst may be ahead by the duration of one rollout of the median actor
        if until > now:
            self._held[name] = now
        return until

    def named(self) -> list[str]:
        """Return, in words, which actors were held back lately."""
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
                return  # too few rollouts: the window goes on
            self._rates.append(middle / (now - self._begun))
            self._seconds = 1.0 / (MOST * max(self._rates))
        self._counts = dict.fromkeys(playing, 0.0)
        self._begun = now
