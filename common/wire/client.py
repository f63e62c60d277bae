"""A peer's connection to the learner: one non-blocking DEALER; the learner need not be running."""

import os
import platform
import secrets
from collections.abc import Iterator

import zmq

from common.errors import ConfigurationError, RefusedError, WireError
from common.host.security.access import LearnerEndpoint
from common.host.versions import versions
from common.wire import sockets
from common.wire.frames import Buffer, pack, split
from common.wire.messages import MAX_NAME, PROTOCOL, AnyMessage, Hello, Role

MAX_REPLY_BYTES = 2**30
"""Longest message that a peer takes from a learner: it does not know the model's size before the welcome."""
MAX_DRAIN = 64
"""Messages that one `receive` reads."""
MAX_FAILED_HANDSHAKES = 50
"""In a row, about five seconds; one or two occur when a learner stops."""
_HANDSHAKES = (
    zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_SUCCEEDED
)


def introduce(
    role: Role,
    access: LearnerEndpoint,
    name: str = "",
    *,
    slots: int = 0,
    launcher: str = "",
    codecs: tuple[str, ...] = (),
) -> Hello:
    """The hello of this process; `name` defaults to host and process id. Raises ConfigurationError for a long name."""
    host = platform.node() or "unknown"
    name = access.name(name or f"{host}-{os.getpid()}")
    if len(name) > MAX_NAME:
        raise ConfigurationError(f"a name of {len(name)} characters: a peer's name has at most {MAX_NAME}")
    return Hello(
        protocol=PROTOCOL,
        role=role,
        name=name,
        incarnation=secrets.token_hex(16),  # nobody can guess it and take over the peer's connection
        host=host,
        pid=os.getpid(),
        versions=versions(),
        codecs=list(codecs),
        launcher=launcher,
        slots=slots,
    )


class LearnerLink:
    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], access: LearnerEndpoint) -> None:
        self._access = access
        self.socket = sockets.dealer(
            context, str(access.address), MAX_REPLY_BYTES, access.credential, monitored=_HANDSHAKES
        )
        self._monitor = self.socket.get_monitor_socket()
        self._failed_handshakes = 0

    def send(self, message: AnyMessage, body: Buffer | None = None) -> bool:
        """Send without waiting; False: there is no connection now, and nothing was queued."""
        header = pack(message)
        frames: list[Buffer] = [header] if body is None else [header, body]
        try:
            self.socket.send_multipart(frames, zmq.NOBLOCK, copy=body is None or len(body) < 65536)
        except zmq.Again:
            return False
        return True

    def receive(self) -> Iterator[tuple[AnyMessage, Buffer | None]]:
        """Up to `MAX_DRAIN` messages that have arrived; anything that is not a message is dropped.

        Raises RefusedError when the keys of the two ends do not match, so that no connection can be made.
        """
        self._check_handshakes()
        for _ in range(MAX_DRAIN):
            try:
                frames = self.socket.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            try:
                yield split([frame.buffer for frame in frames])
            except WireError:
                continue

    def _check_handshakes(self) -> None:
        for event in sockets.events(self._monitor):
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self._failed_handshakes = 0
                continue
            self._failed_handshakes += 1
            if event != zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL or self._failed_handshakes >= MAX_FAILED_HANDSHAKES:
                raise RefusedError(_why_refused(event, self._access))

    def close(self) -> None:
        """Close, after at most 0.1 s in which a last goodbye can be sent."""
        self.socket.disable_monitor()
        self._monitor.close(linger=0)
        self.socket.close(linger=100)


def _why_refused(event: int, access: LearnerEndpoint) -> str:
    where, credential = access.address, access.credential
    if credential is None:
        return f"the learner at {where} talks only to peers with a key: `a3cd keys invite NAME` on its host gives one"
    if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
        pair = credential.pair
        return (
            f"the learner at {where} does not let the key of {pair.name} in: on its host, "
            f"`a3cd keys allow '{pair.public}' --name {pair.name}`"
        )
    if event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL:
        return f"the learner at {where} was started without keys: start it with --keys, or this peer with --insecure"
    return (
        f"what listens at {where} does not hold the learner's key {credential.learner_key}: "
        "a wrong address, or a learner with a new key that must invite this host again"
    )
