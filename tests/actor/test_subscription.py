from __future__ import annotations

import zmq

from actor.subscription import Subscription
from common.host.addresses import Address
from common.host.security.access import LearnerEndpoint
from common.wire import sockets
from common.wire.membership import Membership
from tests.helpers.run import hello_of, welcome_of
from tests.helpers.waiting import until


def test_the_newest_broadcast_is_heard_while_it_may_be(context: zmq.Context[zmq.Socket[bytes]]) -> None:
    listeners = sockets.reserve_pair(Address("127.0.0.1", 0))
    port = listeners[1].getsockname()[1]
    publisher = sockets.publisher(context)
    sockets.bind(publisher, listeners[1])
    listeners[0].close()
    one = Subscription(context, LearnerEndpoint(Address("127.0.0.1", port - 1)))
    membership = Membership(hello_of(), 0.0)
    assert list(one.frames()) == []
    one.keep(membership)
    assert one.socket is None, "no port is known"
    one.open(port, ipv6=False)
    first = one.socket
    one.open(port, ipv6=False)
    assert one.socket is first, "it has this one"

    sent: list[bytes] = []

    def heard() -> list[bytes]:
        sent.append(b"weights %d" % len(sent))
        publisher.send(sent[-1])
        return [frame.bytes for frame in one.frames()]

    found = until(heard, "a broadcast")
    assert found == [each for each in sent if each in found], (
        "in their order, each once; one may come as another is read"
    )
    membership.refused(1.0, "its key is not allowed")
    one.keep(membership)
    assert one.socket is None and list(one.frames()) == []
    membership.handle(2.0, welcome_of())
    one.keep(membership)
    assert one.socket is not None
    found = until(heard, "a broadcast")
    assert found == [each for each in sent if each in found]
    one.close()
    one.close()
    assert one.socket is None
    publisher.close()
