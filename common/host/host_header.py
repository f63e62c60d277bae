"""The Host header of HTTP requests, and the host names under which a server of this machine answers. Pure.

A page of the internet may let its own name lead to a server on its reader's machine (DNS rebinding). The browser then
treats this server's answers as that page's, and only the Host header shows it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection

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
    """The host names under which a server answers. An IP address cannot be misused by a page like a name."""

    def __init__(self, names: Collection[str], loopback: bool) -> None:
        """`names`: more names besides LOCAL; `loopback`: the server listens only there, and has no other address."""
        self._names = {*LOCAL, *(name.lower().strip("[]") for name in names)} - {""}  # that of a header that is wrong
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
