"""The socket on which a daemon receives the learner's broadcast of weights, unless it is kept out of the run."""

from collections.abc import Iterator

import zmq

from common.host.security.access import LearnerEndpoint
from common.wire import sockets
from common.wire.client import MAX_REPLY_BYTES
from common.wire.membership import Membership


class Subscription:
    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], access: LearnerEndpoint) -> None:
        self._context = context
        self._access = access
        self._port = 0
        self._ipv6 = False
        self.socket: zmq.Socket[bytes] | None = None
        """None while not subscribed."""

    def open(self, port: int, *, ipv6: bool) -> None:
        """Subscribes to `port`, which the learner's welcome names; `ipv6`: as the other connection (`LearnerLink`)."""
        if self.socket is not None and (self._port, self._ipv6) == (port, ipv6):
            return
        self.close()
        self._port, self._ipv6 = port, ipv6
        where, credential = str(self._access.address.with_port(port)), self._access.credential
        self.socket = sockets.subscriber(self._context, where, MAX_REPLY_BYTES, credential, ipv6=ipv6)

    def keep(self, membership: Membership) -> None:
        """Subscribes again once a member; unsubscribes while kept out, else the socket retries many times a second."""
        if membership.member and self._port and self.socket is None:
            self.open(self._port, ipv6=self._ipv6)
        elif membership.obstacle and not membership.member:
            self.close()

    def frames(self) -> Iterator[zmq.Frame]:
        """Yields the broadcasts that have arrived."""
        while self.socket is not None:
            try:
                # CONFLATE leaves at most the newest; a reconnect may bring an older one.
                frame = self.socket.recv(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            yield frame

    def close(self) -> None:
        if self.socket is not None:
            self.socket.close(linger=0)
        self.socket = None
