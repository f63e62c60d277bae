"""Addresses such as tcp://host:port."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from common.errors import ConfigurationError

DEFAULT_PORT = 5555
LAST_PORT = 65535
_FORM = re.compile(r"(?:tcp://)?(?P<host>\[[\w:.%-]+\]|[\w.-]+|\*)(?::(?P<port>\d{1,5}|\*))?", re.ASCII)


@dataclass(frozen=True)
class Address:
    """Host (a name, an address, or `*`) and port (0: any free one)."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read `tcp://host:port`; `tcp://` and the port (5555) may be left out. Raises ConfigurationError."""
        match = _FORM.fullmatch(text.strip())
        if match is None:
            raise ConfigurationError(
                f"{text!r} is no address: write tcp://HOST:PORT, as in tcp://localhost:{DEFAULT_PORT}"
            )
        written = match["port"]
        port = DEFAULT_PORT if written is None else 0 if written == "*" else int(written)
        if port > LAST_PORT:
            raise ConfigurationError(f"{text!r}: port {port} is above {LAST_PORT}")
        return cls(match["host"], port)

    def with_port(self, port: int) -> Address:
        return Address(self.host, port)

    def to_connect(self) -> Address:
        """Return this address; raises ConfigurationError for `*` and for port 0, to which nothing can connect."""
        if self.host == "*" or self.port == 0:
            raise ConfigurationError(f"{self} is no address to connect to: name the learner's host and port")
        return self

    @property
    def is_name(self) -> bool:
        """Whether the host is a name, which may stand for several addresses."""
        try:
            ipaddress.ip_address(self.host.strip("[]"))
        except ValueError:
            return "%" not in self.host
        return False

    @property
    def is_ipv6(self) -> bool:
        """Whether the host is an IPv6 address, which is written in brackets."""
        return self.host.startswith("[")

    @property
    def loopback(self) -> bool:
        """Whether only this machine can connect."""
        host = self.host.strip("[]")
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"

    def __str__(self) -> str:
        return f"tcp://{self.host}:{self.port or '*'}"
