"""Who may look: by which names this server may be asked for, and who knows the password. Pure: it is told the time."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import math
import secrets
from collections.abc import Collection

SESSION_SECONDS = 12 * 3600.0
"""After this time the password is asked for again."""
SESSIONS = 1000
"""Browsers at a time; the oldest is asked again."""
GUESSES, GUESS_SECONDS = 5, 60.0
"""Wrong passwords from one address in so many seconds; then it waits."""
ALL_GUESSES = 50
"""The same of all addresses together: one who guesses may have many."""
ADDRESSES = 4096
"""Most that are told apart."""
LOCAL = ("localhost", "127.0.0.1", "::1")


def host_of(header: str) -> str:
    """The name in a Host header or after an origin's `//`, without its port, small; empty: it is none."""
    header = header.strip().lower()
    if header.startswith("["):
        name, closed, rest = header[1:].partition("]")
        return name if closed and (not rest or _port(rest)) else ""
    name, colon, _ = header.partition(":")
    return name if not colon or _port(header[len(name) :]) else ""


def _port(text: str) -> bool:
    return text.startswith(":") and text[1:].isascii() and text[1:].isdigit()


class Hosts:
    """The names under which this server may be asked for.

    A page of the internet may have its own name lead here (DNS rebinding): the browser then takes what this server
    answers for that page's, and says so only in the Host header. An address is nobody's name.
    """

    def __init__(self, names: Collection[str], loopback: bool) -> None:
        """`names` besides those of this machine itself; `loopback`: addresses of the network are none of ours."""
        self._names = {*LOCAL, *(name.lower().strip("[]") for name in names)}
        self._loopback = loopback

    def allow(self, header: str) -> bool:
        """Whether a Host header names this server."""
        name = host_of(header)
        return name in self._names or (not self._loopback and _is_address(name))

    def same(self, origin: str, header: str) -> bool:
        """Whether an Origin header is of a page of this server."""
        scheme, _, rest = origin.partition("://")
        return scheme in ("http", "https") and rest.lower() == header.strip().lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class Door:
    """Lets in who knows the password, at most some guesses a minute, and knows them again by a token."""

    def __init__(self, password: str) -> None:
        self._digest = _digest(password)
        self._sessions: dict[bytes, float] = {}
        """When each ends, by the token's digest: in the order in which they began."""
        self._wrong: dict[str, list[float]] = {}
        """When each address guessed wrong."""
        self._all_wrong: list[float] = []

    def wait(self, now: float, address: str) -> float:
        """Seconds before another guess from this address is looked at."""
        mine = _recent(self._wrong.get(_group(address), []), now)
        self._all_wrong = _recent(self._all_wrong, now)
        waits = [0.0]
        if len(mine) >= GUESSES:
            waits.append(mine[-GUESSES] + GUESS_SECONDS - now)
        if len(self._all_wrong) >= ALL_GUESSES:
            waits.append(self._all_wrong[-ALL_GUESSES] + GUESS_SECONDS - now)
        return max(waits)

    def knock(self, now: float, address: str, password: str) -> bool:
        """Whether the password is right, compared in constant time. Wrong while the address has to wait."""
        if self.wait(now, address) > 0:
            return False
        if hmac.compare_digest(_digest(password), self._digest):
            return True
        group = _group(address)
        self._wrong[group] = [*_recent(self._wrong.pop(group, []), now), now]
        self._all_wrong.append(now)
        while len(self._wrong) > ADDRESSES:
            del self._wrong[next(iter(self._wrong))]
        return False

    def open(self, now: float) -> str:
        """A token for who knew the password."""
        token = secrets.token_urlsafe(32)
        self._sessions[_digest(token)] = now + SESSION_SECONDS
        while len(self._sessions) > SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        return token

    def known(self, now: float, token: str) -> bool:
        """Whether the token is one that was given, and not too old."""
        return now < self._sessions.get(_digest(token), -math.inf)

    def close(self, token: str) -> None:
        """Forget a token."""
        self._sessions.pop(_digest(token), None)


def _digest(text: str) -> bytes:
    """Of one length whatever the text's, so that comparing tells nothing of it."""
    return hashlib.sha256(text.encode(errors="backslashreplace")).digest()


def _recent(times: list[float], now: float) -> list[float]:
    return [time for time in times if now - time < GUESS_SECONDS]


def _group(address: str) -> str:
    """Who has one address of IPv6 has the 2**64 of its network."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 4:
        return str(parsed)
    return str(ipaddress.ip_network((parsed, 64), strict=False))
