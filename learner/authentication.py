"""Which peers may connect, by their CURVE keys (ZeroMQ's authentication protocol, RFC 27/ZAP).

libzmq asks about every connection before it reads a byte from it; the answer is a lookup in the list of allowed peers.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import zmq
from zmq.utils import z85

from common.errors import ConfigurationError
from common.host.addresses import Address
from common.host.security.access import ALLOWED, LEARNER_PAIR, default_folder, keys_command
from common.host.security.allowed import ROLES, Allowed, WatchedList
from common.host.security.keys import KeyPair
from common.host.service.logs import LineLimit
from common.wire import tcp
from learner.bounded_dict import BoundedDict

ZAP_ENDPOINT = "inproc://zeromq.zap.01"
ZAP_DOMAIN = b"a3cd"
CHECK_SECONDS = 1.0
"""Seconds between two readings of the list of allowed peers."""
LINES_PER_SECOND, LINES_AT_ONCE = 1.0, 20
"""Log lines about refused peers, however many addresses they come from."""
MOST_ADDRESSES = 256
"""Most addresses that are remembered for one key."""
_log = logging.getLogger("learner")


@dataclass(frozen=True)
class LearnerKeys:
    pair: KeyPair
    allowed: Path

    @classmethod
    def find(cls, bind: Address, *, keys: Path | None, allowed: Path | None, insecure: bool) -> LearnerKeys | None:
        """Return the keys to listen with at `bind`; None: listen without keys.

        Raises ConfigurationError if keys are required and there are none, or if `insecure` is given together with keys.
        """
        if insecure and (keys is not None or allowed is not None):
            raise ConfigurationError("--insecure is without keys: leave out --keys and --allowed, or --insecure")
        if insecure or (bind.loopback and keys is None):
            return None
        folder = keys or default_folder()
        if not (folder / LEARNER_PAIR).exists():
            command = keys_command(folder)
            raise ConfigurationError(
                f"{bind} can be reached from other hosts, and there is no {folder / LEARNER_PAIR}: "
                f"`{command} new learner` makes it, `{command} invite NAME` lets a peer in; "
                "--insecure does without keys, on a network that you trust"
                if not bind.loopback
                else f"there is no {folder / LEARNER_PAIR}: `{command} new learner` makes it"
            )
        return cls(KeyPair.read(folder / LEARNER_PAIR), allowed or folder / ALLOWED)


def answer(request: list[bytes], names: Mapping[str, str]) -> tuple[list[bytes], str]:
    """Return the reply to one ZAP request, and the public key that is refused (empty: the peer is allowed)."""
    version, number, _, _, _, mechanism, *credentials = request  # RFC 27, section 4.1
    key = z85.encode(credentials[0]).decode() if mechanism == b"CURVE" and credentials else ""
    name = names.get(key, "")
    if name:
        return [version, number, b"200", b"OK", name.encode(), b""], ""
    return [version, number, b"400", b"this key is not allowed here", b"", b""], key or "none"


def _allows(now: Allowed | None, before: Allowed) -> bool:
    """Return whether the holder of a key, `now` in the list, may still be all that it was `before`."""
    return now is not None and now.name == before.name and set(now.roles) >= set(before.roles)


class Authenticator:
    """Answers libzmq's requests and logs the refused ones, with a limit on the lines for each address."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], keys: LearnerKeys, repeat_seconds: float) -> None:
        """Must be created before the sockets that it guards. Raises what `allowed.read` raises."""
        self._pair = keys.pair
        self._list = WatchedList(keys.allowed)
        self._lines = LineLimit(repeat_seconds, LINES_PER_SECOND, LINES_AT_ONCE)
        self._check_due = 0.0
        self._revoked: set[str] = set()
        self._addresses: dict[str, BoundedDict[str, None]] = {}
        """Addresses from which each key was let in, by the key's name, newest last."""
        self._banned: dict[str, float] = {}
        self.roles = self._look_up_roles()
        """Roles that the holder of each key may take, by the key's name; the learner's own pair may take any role."""
        self.socket = context.socket(zmq.REP)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.bind(ZAP_ENDPOINT)

    def guard(self, zsocket: zmq.Socket[bytes]) -> None:
        """Require keys on a socket that is not bound yet."""
        zsocket.setsockopt(zmq.CURVE_SERVER, 1)
        zsocket.setsockopt(zmq.CURVE_SECRETKEY, self._pair.secret.encode())
        zsocket.setsockopt(zmq.ZAP_DOMAIN, ZAP_DOMAIN)

    def ban(self, name: str, until: float) -> None:
        """Refuse the key of this name before the time `until`, whatever the list says."""
        self._banned[name] = until

    def addresses(self, names: Collection[str]) -> set[str]:
        """Return the addresses from which these keys were let in."""
        return {address for name in names for address in self._addresses.get(name, ())}

    def serve(self, now: float) -> None:
        while int(self.socket.get(zmq.EVENTS)) & zmq.POLLIN:
            request = self.socket.recv_multipart()
            reply, refused = answer(request, self._names)
            if refused and self._reread():  # the key may have been added to the list a moment ago
                reply, refused = answer(request, self._names)
            if not refused and now < self._banned.get(reply[4].decode(), 0.0):
                # 300 is a temporary failure, after which libzmq tries again.
                self.socket.send_multipart([*reply[:2], b"300", b"banned for a while", b"", b""])
                continue
            self.socket.send_multipart(reply)
            address = tcp.plain(request[3].decode(errors="replace"))
            if refused:
                self._warn(f"key from {address}", f"the key {refused}, shown from {address}, is not allowed here")
            else:
                self._let_in(reply[4].decode(), address)

    def _let_in(self, name: str, address: str) -> None:
        self._addresses.setdefault(name, BoundedDict(MOST_ADDRESSES))[address] = None

    @property
    def _names(self) -> Mapping[str, str]:
        """Names by public key. Whoever can read the learner's own pair may connect with it."""
        return {self._pair.public: self._pair.name, **self._list.names}

    def _look_up_roles(self) -> dict[str, tuple[str, ...]]:
        """Return the roles of each key, by its name.

        A peer's key that has the name of the learner's own pair cannot be told apart from it: that name then has the
        roles that the list gives the peer, and none while the peer's key is being revoked.
        """
        own = {self._pair.name: ROLES} if self._pair.name not in self._revoked else {}
        return own | {peer.name: peer.roles for peer in self._list.peers.values()}

    @property
    def problem(self) -> str:
        """Why the list in the file is not in force; empty: it is."""
        return self._list.problem

    def revoked(self, now: float) -> set[str]:
        """Return the names of the keys that have lost their permission, or one of their roles, since the last call."""
        if now < self._check_due:
            return set()
        self._check_due = now + CHECK_SECONDS
        self._reread()
        revoked, self._revoked = self._revoked, set()
        if revoked:
            self.roles = self._look_up_roles()
        return revoked

    def _reread(self) -> bool:
        """Read the list again; return whether it has changed."""
        before, problem = self._list.peers, self._list.problem
        changed = self._list.changed()
        if self._list.problem not in ("", problem):
            _log.error("%s", self._list.problem)
        if not changed:
            return False
        after = self._list.peers
        _log.info("allowed now: %s", ", ".join(map(str, after.values())) or "nobody")
        self._revoked |= {peer.name for key, peer in before.items() if not _allows(after.get(key), peer)}
        self.roles = self._look_up_roles()
        return True

    def close(self) -> None:
        self.socket.close(linger=0)

    def _warn(self, key: str, text: str) -> None:
        if (suffix := self._lines.admit(time.monotonic(), key)) is not None:
            _log.warning("%s%s", text, suffix)
