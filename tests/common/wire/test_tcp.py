from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import pytest

from common.wire import tcp


def test_the_bytes_of_a_connection_are_counted_both_ways() -> None:
    if not tcp.counts_bytes:
        pytest.skip("this system does not say")
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as one:
        other, _ = listener.accept()
        with other:
            assert tcp.counted(one.fileno()) == (0, tcp.counted(one.fileno())[1])  # type: ignore[index]
            before = tcp.counted(one.fileno())
            one.sendall(bytes(1000))
            other.sendall(bytes(50))
            until = time.monotonic() + 10
            while (found := tcp.counted(one.fileno())) != (before[0] + 50, before[1] + 1000):  # type: ignore[index]
                assert time.monotonic() < until, found
            assert tcp.peer(one.fileno()) == listener.getsockname()
            assert one.fileno() >= 0, "it is still open"


def test_of_an_ipv6_address_all_is_told() -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    with (
        socket.create_server(("::1", 0), family=socket.AF_INET6) as listener,
        socket.create_connection(listener.getsockname()[:2]) as one,
    ):
        assert tcp.peer(one.fileno()) == listener.getsockname()[:2]


def test_of_an_address_what_ipv6_adds_is_left_out() -> None:
    assert [tcp.plain(one) for one in ("::ffff:10.0.0.7", "fe80::7%eth0", "10.0.0.7", "2001:db8::7")] == [
        *("10.0.0.7", "fe80::7", "10.0.0.7", "2001:db8::7")
    ]


def test_of_what_is_no_connection_nothing_is_known(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    assert (tcp.counted(descriptor), tcp.peer(descriptor)) == (None, None)
    os.close(descriptor)
    assert (tcp.counted(descriptor), tcp.peer(descriptor)) == (None, None)
