"""A learner's guarded port, and a peer that knocks there."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable
from pathlib import Path

import zmq

from common.errors import UnavailableError
from common.host.addresses import Address
from common.host.security.access import LearnerEndpoint
from common.host.security.credential import Credential
from common.host.security.keys import KeyPair
from common.wire import sockets
from common.wire.client import LearnerLink, introduce
from common.wire.membership import Membership
from learner.authentication import Authenticator, LearnerKeys
from tests.helpers.waiting import until

OWN, PEER = KeyPair.generate("learner"), KeyPair.generate("lab7")


class Guarded:
    """A learner's port with keys, or without, and one peer that wants in; time passes as the test says."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], folder: Path) -> None:
        self.context, self.list = context, folder / "allowed"
        self.authenticator: Authenticator | None = None
        self.router: zmq.Socket[bytes] | None = None
        self.now = 100.0
        with sockets.reserve(Address("127.0.0.1", 0)) as listener:
            self.address = Address("127.0.0.1", listener.getsockname()[1])

    def open(self, keys: bool = True) -> None:
        self.router = sockets.router(self.context, 2**20)
        if keys:
            self.authenticator = Authenticator(self.context, LearnerKeys(OWN, self.list), repeat_seconds=3600)
            self.authenticator.guard(self.router)
        sockets.bind(self.router, self._reserved())

    def _reserved(self) -> socket.socket:
        """A socket that was closed is still open until ZeroMQ's own thread has come to it."""

        def reserved() -> socket.socket | None:
            with contextlib.suppress(UnavailableError):
                return sockets.reserve(self.address)
            return None

        return until(reserved, f"{self.address} is free")

    def close(self) -> None:
        if self.authenticator is not None and self.router is not None:
            self.authenticator.close()
        if self.router is not None:
            self.router.close(linger=0)
        self.router = self.authenticator = None

    def knock(self, *, patient: bool = True, learner_key: str = OWN.public) -> None:
        access = LearnerEndpoint(self.address, Credential(self.address, learner_key, PEER))
        hello = introduce("actor", access)
        self.membership = Membership(hello, self.now, patient=patient)
        self.link = LearnerLink(self.context, access)
        self.connected = False

    def until(self, good: Callable[[], bool], what: str) -> None:
        def look() -> bool:
            self.look()
            return good()

        until(look, what, pause=0.002)

    def look(self) -> None:
        if self.authenticator is not None:
            self.authenticator.serve(time.monotonic())
        if self.link.watch(self.now, self.membership):
            self.connected = True
            self.membership.connected(self.now)
