from __future__ import annotations

from deploy.dashboard.door import (
    ADDRESSES,
    ALL_GUESSES,
    GUESS_SECONDS,
    GUESSES,
    SESSION_SECONDS,
    SESSIONS,
    Door,
)

ADDRESS = "192.0.2.7"


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
