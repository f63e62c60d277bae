"""A process of its own, since libzmq may abort it: a learner's socket that nobody reads, and a peer that leaves.

The peer sends more than its credit would ever leave open and closes its connection while all of it lies unread. Then
the process waits until the socket has noticed, and reads. With a number as argument the socket takes no more unread
messages than that: at 8, libzmq 4.3.5 aborts (`!_io_error`) at the second heartbeat after the peer has gone.
"""

from __future__ import annotations

import sys

import zmq

from common.host.addresses import Address
from common.wire import sockets

MESSAGES, MAX_BYTES = 20, 1000
HEARTBEAT_MS, PATIENCE_MS = 200, 10_000


def main(unread: int | None) -> None:
    context, elsewhere = zmq.Context(), zmq.Context()
    router = sockets.router(context, MAX_BYTES)
    router.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT_MS)
    if unread is not None:
        router.setsockopt(zmq.RCVHWM, unread)
    monitor = router.get_monitor_socket(zmq.EVENT_DISCONNECTED)
    sockets.bind(router, sockets.reserve(Address("127.0.0.1", 0)))

    peer = sockets.dealer(elsewhere, router.getsockopt_string(zmq.LAST_ENDPOINT), b"actor/1", MAX_BYTES)
    for _ in range(MESSAGES):
        peer.poll(PATIENCE_MS, zmq.POLLOUT)
        peer.send(b"a gradient", zmq.NOBLOCK)
    peer.close(linger=PATIENCE_MS)
    elsewhere.term()

    if not monitor.poll(PATIENCE_MS):
        sys.exit("the socket did not notice that its peer has gone")
    read = 0
    while router.poll(0):
        router.recv_multipart(zmq.NOBLOCK)
        read += 1
    print(read)
    router.disable_monitor()
    context.destroy(linger=0)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else None)
