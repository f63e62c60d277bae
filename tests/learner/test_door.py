"""By the kernel, on loopback."""

from __future__ import annotations

import socket
import sys

import pytest

from learner.door import MOST, keep_out, program

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it is Linux that keeps them out")


def comes_in(listener: socket.socket) -> bool:
    """Whether a connection from 127.0.0.1 is made."""
    try:
        with socket.create_connection(listener.getsockname()[:2], 0.2):
            listener.accept()[0].close()
            return True
    except TimeoutError:
        return False


@pytest.mark.parametrize(
    "others", [[], ["10.0.0.7", "2001:db8::7"], [f"10.0.0.{number}" for number in range(MOST - 1)]]
)
def test_an_address_is_kept_out_until_it_is_let_in(others: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        keep_out(listener, others)
        assert comes_in(listener)
        keep_out(listener, [*others, "127.0.0.1"])
        assert not comes_in(listener)
        keep_out(listener, others)
        assert comes_in(listener)
        keep_out(listener, [])
        assert comes_in(listener)


def test_an_ipv6_address_is_kept_out_and_none_that_ends_like_it() -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as listener:
        assert comes_in(listener)
        keep_out(listener, ["10.0.0.7", "2001:db8::1", "0.0.0.1"])
        assert comes_in(listener)
        keep_out(listener, ["10.0.0.7", "::1", "2001:db8::1"])
        assert not comes_in(listener)


def test_a_connection_that_is_there_stays() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as one:
        other, _ = listener.accept()
        with other:
            keep_out(listener, ["127.0.0.1"])
            one.sendall(b"hello")
            assert other.recv(5) == b"hello"


def test_more_than_a_program_can_hold_are_left_out() -> None:
    assert len(program(["10.0.0.7"] * (MOST + 50))) == len(program(["10.0.0.7"] * MOST))
