"""Who may look: the host names under which this server answers, and the password. Pure: the time is an argument."""

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
"""Most browsers at a time; then the oldest is asked for the password again."""
GUESSES, GUESS_SECONDS = 5, 60.0
"""An address with so many wrong passwords within so many seconds has to wait."""
ALL_GUESSES = 50
"""The same for all addresses together, since an attacker may have many."""
ADDRESSES = 4096
"""Most addresses that are told apart."""
LOCAL = ("localhost", "127.0.0.1", "::1")


def host_of(header: str) -> str:
    """The host name in a Host header or after an origin's `//`, in lower case, without its port; empty: not valid."""
    header = header.strip().lower()
    if header.startswith("["):
        name, closed, rest = header[1:].partition("]")
        return name if closed and (not rest or _port(rest)) else ""
    name, colon, _ = header.partition(":")
    return name if not colon or _port(header[len(name) :]) else ""


def port_of(header: str) -> str:
    """The port in a Host header, empty without one: the one that the browser knows, of a tunnel its near end."""
    port = header.strip().rpartition(":")[2]
    return port if host_of(header) and port.isdigit() else ""


def _port(text: str) -> bool:
    return text.startswith(":") and text[1:].isascii() and text[1:].isdigit()


class Hosts:
    """The host names under which this server answers.

    A page of the internet may let its own name lead to this server (DNS rebinding). The browser then treats this
    server's answers as that page's, and only the Host header shows it. An IP address cannot be misused like that.
    """

    def __init__(self, names: Collection[str], loopback: bool) -> None:
        """`names`: more names besides LOCAL; `loopback`: the server listens only there, and has no other address."""
        self._names = {*LOCAL, *(name.lower().strip("[]") for name in names)}
        self._loopback = loopback

    def allow(self, header: str) -> bool:
        """Whether a Host header names this server."""
        name = host_of(header)
        return name in self._names or (not self._loopback and _is_address(name))

    def same(self, origin: str, header: str) -> bool:
        """Whether an Origin header names a page of this server."""
        scheme, _, rest = origin.partition("://")
        return scheme in ("http", "https") and rest.lower() == header.strip().lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class Door:
    """Lets in whoever knows the password, and knows them again by a token; allows few wrong guesses a minute."""

    def __init__(self, password: str) -> None:
        self._digest = _digest(password)
        self._sessions: dict[bytes, float] = {}
        """When each session ends, by its token's digest; in the order in which they began."""
        self._wrong: dict[str, list[float]] = {}
        """When each address guessed wrong, by `_group`."""
        self._all_wrong: list[float] = []

    def wait(self, now: float, address: str) -> float:
        """Seconds until another guess from this address is looked at."""
        mine = _recent(self._wrong.get(_group(address), []), now)
        self._all_wrong = _recent(self._all_wrong, now)
        waits = [0.0]
        if len(mine) >= GUESSES:
            waits.append(mine[-GUESSES] + GUESS_SECONDS - now)
        if len(self._all_wrong) >= ALL_GUESSES:
            waits.append(self._all_wrong[-ALL_GUESSES] + GUESS_SECONDS - now)
        return max(waits)

    def knock(self, now: float, address: str, password: str) -> bool:
        """Whether the password is right, compared in constant time; always False while the address has to wait."""
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
        """Begin a session for somebody who knew the password, and return its token."""
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
    """A digest, whose length does not depend on the text's, so that comparing it reveals nothing of the text."""
    return hashlib.sha256(text.encode(errors="backslashreplace")).digest()


def _recent(times: list[float], now: float) -> list[float]:
    return [time for time in times if now - time < GUESS_SECONDS]


def _group(address: str) -> str:
    """What guesses are counted by: for IPv6 the /64 network, since whoever has one of its addresses has all 2**64."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 4:
        return str(parsed)
    return str(ipaddress.ip_network((parsed, 64), strict=False))
