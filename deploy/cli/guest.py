"""A peer that takes no part in a run: it joins, asks or says something, and goes."""

import math
import time
from collections.abc import Iterator
from typing import Self

import zmq

from common.host.security.access import LearnerEndpoint
from common.wire.client import LearnerLink, introduce
from common.wire.membership import Membership
from common.wire.messages import AnyMessage, Goodbye, Role


class Guest:
    """A context manager; at its end the learner is told goodbye."""

    def __init__(self, role: Role, access: LearnerEndpoint) -> None:
        now = time.monotonic()
        hello = introduce(role, access)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._link = LearnerLink(self._context, access)
        self.membership = Membership(hello, now, patient=False)
        self._poller = zmq.Poller()
        self._poller.register(self._link.socket, zmq.POLLIN)
        self._poller.register(self._link.monitor, zmq.POLLIN)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.membership.member:
            self._link.send(Goodbye(reason="done"))
        self._link.close()
        self._context.term()

    def _hear(self, now: float) -> Iterator[AnyMessage]:
        """Yields the messages that have come. Raises RefusedError if the learner refuses this guest."""
        if self._link.watch(now, self.membership):
            self.membership.connected(now)
        for message, _ in self._link.receive():
            self.membership.handle(now, message)
            yield message

    def _keep(self, now: float, state: str = "") -> None:
        """Sends hello or a heartbeat when it is due."""
        due = self.membership.tick(now, state=state)
        if due is not None and not self._link.send(due):
            self.membership.unsent(now)

    def _wait(self, now: float, until: float) -> None:
        """Waits until something comes, or until the time `until`."""
        self._poller.poll(max(1, math.ceil(1000 * (until - now))))
