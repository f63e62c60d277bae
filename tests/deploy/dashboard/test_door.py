from __future__ import annotations

import pytest

from deploy.dashboard.door import (
    ADDRESSES,
    ALL_GUESSES,
    GUESS_SECONDS,
    GUESSES,
    SESSION_SECONDS,
    SESSIONS,
    Door,
    Hosts,
    host_of,
    port_of,
)

ADDRESS = "192.0.2.7"


@pytest.mark.parametrize(
    ("header", "name", "port"),
    [
        ("localhost:8265", "localhost", "8265"),
        ("LOCALHOST", "localhost", ""),
        ("[::1]:8265", "::1", "8265"),
        ("[::1]", "::1", ""),
        ("", "", ""),
        ("[::1", "", ""),
        ("[::1]x", "", ""),
        ("localhost:x", "", ""),
        ("localhost:80:80", "", ""),
    ],
)
def test_the_host_and_the_port_of_a_header(header: str, name: str, port: str) -> None:
    assert (host_of(header), port_of(header)) == (name, port)


@pytest.mark.parametrize("header", ["127.0.0.1:8265", "localhost:9000", "[::1]:8265", "localhost", "gpu-box:1"])
def test_names_of_this_machine_are_allowed_at_any_port_as_through_ssh(header: str) -> None:
    assert Hosts(["GPU-box"], loopback=True).allow(header)


@pytest.mark.parametrize(
    "header", ["evil.example", "localhost.evil.example:8265", "evil.example:8265", "", "192.0.2.7"]
)
def test_other_names_are_not_wherever_they_lead(header: str) -> None:
    assert not Hosts([], loopback=True).allow(header)


def test_beyond_this_machine_its_addresses_are_allowed_and_other_names_still_not() -> None:
    hosts = Hosts(["gpu-box"], loopback=False)
    assert hosts.allow("192.0.2.7:8265")
    assert hosts.allow("[2001:db8::1]:8265")
    assert hosts.allow("gpu-box:8265")
    assert not hosts.allow("evil.example:8265")


@pytest.mark.parametrize(
    ("origin", "same"),
    [
        ("http://localhost:8265", True),
        ("https://localhost:8265", True),
        ("http://LOCALHOST:8265", True),
        ("http://localhost:8266", False),
        ("http://evil.example", False),
        ("null", False),
        ("file://localhost:8265", False),
        ("", False),
    ],
)
def test_only_a_page_of_this_server_is_of_its_origin(origin: str, same: bool) -> None:
    assert Hosts([], loopback=True).same(origin, "localhost:8265") is same


def test_who_knows_the_password_gets_a_token_that_lasts_for_a_while() -> None:
    door = Door("open sesame")
    assert door.knock(0.0, ADDRESS, "open sesame")
    token = door.open(0.0)
    assert door.known(SESSION_SECONDS - 1, token)
    assert not door.known(SESSION_SECONDS, token)
    assert not door.known(0.0, token + "x")
    assert not door.known(0.0, "")
    door.close(token)
    assert not door.known(1.0, token)


def test_after_some_wrong_guesses_even_the_right_one_waits() -> None:
    door = Door("open sesame")
    for second in range(GUESSES):
        assert door.wait(second, ADDRESS) == 0
        assert not door.knock(second, ADDRESS, "guess")
    assert not door.knock(GUESSES, ADDRESS, "open sesame")
    assert door.wait(GUESSES, ADDRESS) == GUESS_SECONDS - GUESSES
    assert door.knock(GUESSES, "192.0.2.8", "open sesame"), "another one does not wait"
    assert door.knock(GUESS_SECONDS, ADDRESS, "open sesame"), "the first guess is forgotten"


def test_addresses_of_one_network_of_ipv6_guess_together() -> None:
    door = Door("open sesame")
    for number in range(GUESSES):
        door.knock(0.0, f"2001:db8::{number}", "guess")
    assert door.wait(0.0, "2001:db8::ffff%eth0") > 0
    assert door.wait(0.0, "2001:db8:1::1") == 0


def test_many_addresses_have_some_guesses_together() -> None:
    door = Door("open sesame")
    for number in range(ALL_GUESSES):
        door.knock(0.0, f"198.51.100.{number}", "guess")
    assert door.wait(0.0, ADDRESS) == GUESS_SECONDS
    assert door.wait(GUESS_SECONDS, ADDRESS) == 0


def test_memory_is_bounded() -> None:
    door = Door("open sesame")
    tokens = [door.open(0.0) for _ in range(SESSIONS + 1)]
    assert not door.known(0.0, tokens[0])
    assert door.known(0.0, tokens[1])
    for number in range(ADDRESSES + 10):
        door.knock(number * GUESS_SECONDS, f"host-{number}", "guess")
    assert len(door._wrong) == ADDRESSES


def test_a_password_may_be_any_text() -> None:
    assert Door("schlüssel \ud800").knock(0.0, ADDRESS, "schlüssel \ud800")
    assert not Door("a").knock(0.0, ADDRESS, "\ud800")
