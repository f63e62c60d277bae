"""A learner's port, and peers that flood it and reset their connections; a process, because libzmq may abort it.

    python flooded.py control|weights reading|stalled open|keys

The owner of the port reads all the time, or hardly ever. Each peer sends far more than the owner reads, including ZMTP
pings, and resets its connection while part of it is unread. At the end an honest peer must be served.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import socket
import struct
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import zmq

from common.host.addresses import Address
from common.host.security.allowed import allow
from common.host.security.credential import Credential
from common.host.security.keys import KeyPair
from common.wire import sockets
from learner.authentication import Authenticator, LearnerKeys
from tests.helpers.stranger import PING, Stranger, frame

TIMES, MAX_BYTES, PATIENCE_MS = 10, 1000, 10_000
HERE = Address("127.0.0.1", 0)
RESET = struct.pack("ii", 1, 0)


def main(kind: str, owner: str, keys: str) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    learner, lab = KeyPair.generate("learner"), KeyPair.generate("lab")
    zsocket = sockets.router(context, MAX_BYTES) if kind == "control" else sockets.publisher(context)
    with TemporaryDirectory() as folder:
        allowed = Path(folder) / "allowed"
        allow(allowed, lab.public, lab.name)
        guard = Authenticator(context, LearnerKeys(learner, allowed), 60.0) if keys == "keys" else None
        if guard is not None:
            guard.guard(zsocket)
        listener = sockets.reserve(HERE)
        port = listener.getsockname()[1]
        sockets.bind(zsocket, listener)
        credential = Credential(HERE.with_port(port), learner.public, lab) if guard else None
        attack = _attack if credential is None else _attack_with_key
        attacks = threading.Thread(target=lambda: [attack(port, kind, credential) for _ in range(TIMES)])
        attacks.start()
        while attacks.is_alive():
            _serve(zsocket, guard, kind, 1000 if owner == "reading" else 1)
            time.sleep(0.0 if owner == "reading" else 0.05)
        attacks.join()
        _honest(context, zsocket, guard, kind, port, credential)
        if guard is not None:
            guard.close()
    context.destroy(linger=0)
    print("served")


def _serve(zsocket: zmq.Socket[bytes], guard: Authenticator | None, kind: str, most: int) -> None:
    if guard is not None:
        guard.serve(time.monotonic())
    if kind == "weights":
        zsocket.send(b"weights", zmq.NOBLOCK)
        return
    for _ in range(most):
        if not zsocket.poll(1):
            return
        zsocket.recv_multipart()


def _attack(port: int, kind: str, _: None) -> None:
    with Stranger(port, "DEALER" if kind == "control" else "SUB") as peer:
        message = frame(b"x") if kind == "control" else frame(b"\1a topic")
        peer.pour((20 * message + 20 * PING), 300)
        time.sleep(random.random() * 0.03)
        peer.reset()


def _attack_with_key(port: int, kind: str, credential: Credential) -> None:
    """Floods the port with libzmq itself, through a TCP proxy that resets both ends."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with socket.create_server(("127.0.0.1", 0)) as relay:
        peer = context.socket(zmq.DEALER if kind == "control" else zmq.SUB)
        peer.setsockopt(zmq.HEARTBEAT_IVL, 1)
        peer.setsockopt(zmq.CURVE_SERVERKEY, credential.learner_key.encode())
        peer.setsockopt(zmq.CURVE_PUBLICKEY, credential.pair.public.encode())
        peer.setsockopt(zmq.CURVE_SECRETKEY, credential.pair.secret.encode())
        peer.connect(f"tcp://127.0.0.1:{relay.getsockname()[1]}")
        near = relay.accept()[0]
    with near, socket.create_connection(("127.0.0.1", port)) as far:
        carriers = [threading.Thread(target=_carry, args=ends) for ends in ((near, far), (far, near))]
        for carrier in carriers:
            carrier.start()
        until = time.monotonic() + 0.15
        for number in itertools.count():
            if time.monotonic() > until:
                break
            if kind == "weights":
                peer.setsockopt(zmq.SUBSCRIBE, b"%d" % number)
            elif peer.poll(1, zmq.POLLOUT):
                peer.send(b"x", zmq.NOBLOCK)
        for end in (near, far):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            with contextlib.suppress(OSError):  # the connection may have ended already
                end.shutdown(socket.SHUT_RD)
        for carrier in carriers:
            carrier.join()
    context.destroy(linger=0)


def _carry(source: socket.socket, sink: socket.socket) -> None:
    try:
        while some := source.recv(2**16):
            sink.sendall(some)
    except OSError:
        pass


def _honest(
    context: zmq.Context[zmq.Socket[bytes]],
    zsocket: zmq.Socket[bytes],
    guard: Authenticator | None,
    kind: str,
    port: int,
    credential: Credential | None,
) -> None:
    connect = sockets.dealer if kind == "control" else sockets.subscriber
    peer = connect(context, f"tcp://127.0.0.1:{port}", MAX_BYTES, credential)
    until = time.monotonic() + PATIENCE_MS / 1e3
    served = False
    while not served:
        if time.monotonic() > until:
            sys.exit("an honest peer is not served afterwards")
        if guard is not None:
            guard.serve(time.monotonic())
        if kind == "weights":
            zsocket.send(b"weights", zmq.NOBLOCK)
            served = bool(peer.poll(10))
        else:
            if peer.poll(10, zmq.POLLOUT):
                peer.send(b"honest")
            while not served and zsocket.poll(10):
                served = zsocket.recv_multipart()[1] == b"honest"
    while kind == "control" and zsocket.poll(100):
        zsocket.recv_multipart()


if __name__ == "__main__":
    main(*sys.argv[1:])
