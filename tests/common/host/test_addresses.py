from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import ConfigurationError
from common.host.addresses import Address


@pytest.mark.parametrize(
    ("text", "host", "port", "written"),
    [
        ("tcp://lab7:6000", "lab7", 6000, "tcp://lab7:6000"),
        ("lab7:6000", "lab7", 6000, "tcp://lab7:6000"),
        ("tcp://lab7", "lab7", 5555, "tcp://lab7:5555"),
        (" 10.0.0.1 \n", "10.0.0.1", 5555, "tcp://10.0.0.1:5555"),
        ("gpu-box.my_lab.example.org", "gpu-box.my_lab.example.org", 5555, "tcp://gpu-box.my_lab.example.org:5555"),
        ("tcp://*:5555", "*", 5555, "tcp://*:5555"),
        ("tcp://0.0.0.0:*", "0.0.0.0", 0, "tcp://0.0.0.0:*"),
        ("tcp://0.0.0.0:0", "0.0.0.0", 0, "tcp://0.0.0.0:*"),
        ("tcp://[::1]:65535", "[::1]", 65535, "tcp://[::1]:65535"),
        ("[fe80::1%br-lan]", "[fe80::1%br-lan]", 5555, "tcp://[fe80::1%br-lan]:5555"),
    ],
)
def test_parse(text: str, host: str, port: int, written: str) -> None:
    address = Address.parse(text)
    assert address == Address(host, port)
    assert str(address) == written


@pytest.mark.parametrize(
    "text",
    [
        *("", "tcp://", "tcp://:5555", "udp://lab7:5555", "tcp://lab7:", "tcp://lab7:x", "tcp://lab7:-1", "a b"),
        *("tcp://lab7/5555", "tcp://lab7:5555/", "::1", "tcp://a;b:5555", "tcp://a,b", "tcp://café", "tcp://lab7:٣"),
        *("tcp://lab7:5555\ntcp://lab8", "*lab", "[]", "tcp://lab7:555555"),
    ],
)
def test_what_is_no_address_is_shown_one(text: str) -> None:
    with pytest.raises(ConfigurationError, match="is no address: write tcp://HOST:PORT, as in tcp://localhost:5555"):
        Address.parse(text)


def test_a_port_that_cannot_be() -> None:
    with pytest.raises(ConfigurationError, match="'lab7:65536': port 65536 is above 65535"):
        Address.parse("lab7:65536")


@given(st.text() | st.from_regex(r"(tcp://)?[\w.\[\]:*%-]*(:[\d*]{1,6})?"))
def test_any_text_is_an_address_that_reads_the_same_or_an_error(text: str) -> None:
    with contextlib.suppress(ConfigurationError):
        address = Address.parse(text)
        assert Address.parse(str(address)) == address
        assert str(address).isascii()


def test_with_port() -> None:
    assert Address.parse("lab7:6000").with_port(6001) == Address("lab7", 6001)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        *(("localhost", True), ("127.0.0.1", True), ("127.8.8.8", True), ("[::1]", True)),
        *(("0.0.0.0", False), ("*", False), ("lab7", False), ("10.0.0.1", False), ("[::]", False)),
    ],
)
def test_loopback(host: str, loopback: bool) -> None:
    assert Address(host, 5555).loopback is loopback


def test_to_connect() -> None:
    address = Address.parse("tcp://lab7:6000")
    assert address.to_connect() is address


@pytest.mark.parametrize("text", ["tcp://*:5555", "tcp://lab7:0", "tcp://*:*"])
def test_an_address_to_listen_on_is_none_to_connect_to(text: str) -> None:
    with pytest.raises(ConfigurationError, match="is no address to connect to: name the learner's host and port"):
        Address.parse(text).to_connect()


@pytest.mark.parametrize(
    ("host", "name"),
    [("localhost", True), ("gpu-box.lab", True), ("10.0.0.1", False), ("[::1]", False), ("[fe80::1%eth0]", False)],
)
def test_a_name_may_stand_for_several_addresses(host: str, name: bool) -> None:
    assert Address(host, 1).is_name == name
    assert Address(host, 1).is_ipv6 == host.startswith("[")
