"""The newest weights that a relay has, and how it passes them on to its site.

A broadcast is passed on unchanged: run, epoch, version and checksum are in it. The site's network needs a while to copy
it to all actors; after that the next one goes out, the newest that has arrived. The newest whole weights (the keyframe
of the deltas) are kept for actors that join or pull.
"""

import math
from collections.abc import Mapping

from common.wire.bodies.delta import keyframe_of
from common.wire.frames import Buffer
from common.wire.messages import Pull, Weights
from learner.connections import Progress
from learner.effects import Publish, Send
from learner.parameters.publisher import HOLD_SECONDS, WELCOME_BYTES
from learner.parameters.pulls import PullQueue, held

NONE = -1
"""The version that stands for no weights."""


class KeptWeights:
    """The weights of one epoch of the learner."""

    def __init__(self, epoch: int, mbit: float) -> None:
        """`mbit`: bandwidth for weights in the site's network, in 10^6 bits a second."""
        self.version = NONE
        """Version of the newest weights."""
        self._epoch = epoch
        self._seconds_per_byte = 8 / (mbit * 1e6)
        self._whole: tuple[int, Buffer] = NONE, b""
        self._delta: tuple[int, Buffer] = NONE, b""
        """Version and body of the last delta; it is against the whole weights if it is newer than they are."""
        self._heard = NONE
        """Version of the newest broadcast."""
        self._waiting: dict[bool, bytes] = {}
        """Broadcasts to be passed on: the whole one (True) goes before the delta against it (False)."""
        self._free = -math.inf
        """When the network will have carried the previous broadcast."""
        self._delta_due = -math.inf
        """When a delta may follow the last whole broadcast: an actor's socket keeps only the newest unread one."""
        self._pulls = PullQueue(mbit)

    @property
    def there(self) -> bool:
        """Whether there are whole weights, with which an actor can begin."""
        return self._whole[0] != NONE

    @property
    def keyframe(self) -> int:
        """Version of the newest whole weights."""
        return self._whole[0]

    @property
    def deadline(self) -> float:
        """The time when `due` next has something to do."""
        return min(self._pulls.deadline, self._pass_on_due)

    @property
    def _pass_on_due(self) -> float:
        if not self._waiting:
            return math.inf
        return self._free if True in self._waiting else max(self._free, self._delta_due)

    def load(self, version: int, body: Buffer, *, delta: bool) -> bool:
        """Keeps newer weights, `body` as it is; False: a delta against weights other than the whole ones here."""
        if delta and keyframe_of(body) != self._whole[0]:
            return False
        self.version = version
        if delta:
            self._delta = version, body
        else:
            self._whole = version, body
        return True

    def heard(self, frame: bytes, version: int, *, delta: bool) -> None:
        """Takes a broadcast of this epoch to be passed on, unless it is no newer than an earlier one."""
        if version <= self._heard:
            return
        self._heard = version
        if not delta:
            self._waiting.clear()
        self._waiting[not delta] = frame

    def due(self, now: float, subscribers: int) -> list[Send | Publish]:
        """Returns answers to pulls and the next broadcast, as far as the site's bandwidth allows."""
        effects: list[Send | Publish] = []
        while (waiting := self._pulls.next(now)) is not None:
            effects += self._newer(now, *waiting)
        if now >= self._pass_on_due:
            whole = True in self._waiting
            frame = self._waiting.pop(whole)
            effects.append(Publish(frame))
            seconds = max(1, subscribers) * len(frame) * self._seconds_per_byte * (2 if self._pulls else 1)
            self._free = now + seconds
            if whole:
                self._delta_due = now + HOLD_SECONDS
        return effects

    def first(self, now: float, routing_id: bytes) -> tuple[int, Buffer | None]:
        """Returns version and body for an actor that joins; a long body is left out (None), and the actor pulls it."""
        version, body = self._whole
        if len(body) > WELCOME_BYTES:
            return self.version, None
        self._sent(now, routing_id, version, body)
        return version, body

    def pulled(self, now: float, routing_id: bytes, pull: Pull) -> list[Send]:
        """Answers a pull at once if the actor has the newest weights; otherwise the pull waits for `due`."""
        if held(pull) >= self.version:
            return [Send(routing_id, Weights(version=self.version, epoch=self._epoch))]
        self._pulls.ask(now, routing_id, pull)
        return []

    def _newer(self, now: float, routing_id: bytes, pull: Pull) -> list[Send]:
        """Returns the newest weights, preceded by the whole ones if the actor lacks them."""
        effects = []
        version, body = self._whole
        if held(pull) < version:
            self._sent(now, routing_id, version, body)
            effects.append(Send(routing_id, Weights(version=version, epoch=self._epoch), body))
        newest, delta = self._delta
        if newest > max(held(pull), version):
            self._pulls.spent(now, len(delta))
            effects.append(Send(routing_id, Weights(version=newest, epoch=self._epoch, delta=True), delta))
        return effects

    def _sent(self, now: float, routing_id: bytes, version: int, body: Buffer) -> None:
        self._pulls.sent(now, routing_id, version, len(body))
        self._pulls.spent(now, len(body), share=0.5 if self._waiting else 1.0)

    def progress(self, progress: Mapping[bytes, Progress]) -> None:
        """Takes the progress of each actor that has bytes under way to it or from it."""
        for routing_id, one in progress.items():
            self._pulls.progress(routing_id, one)

    def left(self, routing_id: bytes) -> None:
        """Forgets an actor that is gone."""
        self._pulls.left(routing_id)
