"""The connecting end of the wire: one DEALER to the learner, non-blocking; the learner need not be there."""

from __future__ import annotations

import os
import platform
import secrets
from collections.abc import Iterator

import zmq

from common import sockets
from common.addresses import Address
from common.errors import ConfigurationError, WireError
from common.messages import MAX_NAME, PROTOCOL, AnyMessage, Hello, Role
from common.wire import Buffer, pack, split

MAX_REPLY_BYTES = 2**30
"""A peer cannot know the model's size before the welcome; this bounds what it would take from a learner."""
MAX_DRAIN = 64
"""Messages read at once; what else has come waits for the next turn."""
MAX_ROUTING_ID = 255
"""Bytes that ZeroMQ takes."""


def introduce(
    role: Role,
    name: str = "",
    *,
    slots: int = 0,
    launcher: str = "",
    codecs: tuple[str, ...] = (),
    versions: dict[str, str] | None = None,
) -> Hello:
    """What this process says of itself; `name` defaults to host and process id.

    Raises ConfigurationError for a name that no learner would read.
    """
    if len(name) > MAX_NAME:
        raise ConfigurationError(f"a name of {len(name)} characters: a peer's name has at most {MAX_NAME}")
    host = platform.node() or "unknown"
    return Hello(
        protocol=PROTOCOL,
        role=role,
        name=name or f"{host}-{os.getpid()}",
        incarnation=secrets.token_hex(4),
        host=host,
        pid=os.getpid(),
        versions={"python": platform.python_version(), **(versions or {})},
        codecs=list(codecs),
        launcher=launcher,
        slots=slots,
    )


class LearnerLink:
    """Messages to and from the learner at `address`."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], address: Address, hello: Hello) -> None:
        """The routing id holds the incarnation, so a restarted peer never inherits its predecessor's connection."""
        identity = f"{hello.role}/{hello.incarnation}/{hello.name}".encode(errors="replace")[:MAX_ROUTING_ID]
        self.socket = sockets.dealer(context, str(address), identity, MAX_REPLY_BYTES)
        self.bytes_sent = 0

    def send(self, message: AnyMessage, body: Buffer | None = None) -> bool:
        """Hands a message to the network; False: there is no connection now, and nothing was queued."""
        header = pack(message)
        frames: list[Buffer] = [header] if body is None else [header, body]
        try:
            self.socket.send_multipart(frames, zmq.NOBLOCK, copy=body is None or len(body) < 65536)
        except zmq.Again:
            return False
        self.bytes_sent += len(header) + (0 if body is None else len(body))
        return True

    def receive(self) -> Iterator[tuple[AnyMessage, Buffer | None]]:
        """What has arrived, at most `MAX_DRAIN` messages; what is no message is dropped."""
        for _ in range(MAX_DRAIN):
            try:
                frames = self.socket.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            try:
                yield split([frame.buffer for frame in frames])
            except WireError:
                continue

    def close(self) -> None:
        """Lets a last goodbye leave, for at most a tenth of a second."""
        self.socket.close(linger=100)
