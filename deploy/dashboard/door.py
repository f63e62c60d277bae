"""Who may look: whoever names this server and knows the password. Pure: the time is an argument."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import math
import secrets

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
