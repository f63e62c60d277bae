"""Notifications for systemd, as by sd_notify(3); nothing is sent if $NOTIFY_SOCKET is not set."""

import contextlib
import math
import os
import socket
from collections.abc import Mapping

from common.host.service.logs import printable

_VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")


def inherited() -> dict[str, str]:
    """Return the environment for children, without the variables that systemd set for this process."""
    return {name: value for name, value in os.environ.items() if name not in _VARIABLES}


class Notifier:
    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        """`environ` has systemd's variables; a socket `@name` is abstract."""
        name = environ.get("NOTIFY_SOCKET", "")
        self._address = f"\0{name[1:]}" if name.startswith("@") else name
        self._interval = _watchdog_seconds(environ) / 2
        self._starting = True
        self.deadline = 0.0 if self._interval < math.inf else math.inf
        """When `watchdog` has something to do next."""

    def ready(self, status: str = "") -> None:
        self._starting = False
        self._send(f"READY=1\nSTATUS={printable(status)}")

    def status(self, text: str) -> None:
        """Send one line for `systemctl status`."""
        self._send(f"STATUS={printable(text)}")

    def stopping(self, status: str = "") -> None:
        self._starting = False
        self._send(f"STOPPING=1\nSTATUS={printable(status)}")

    def watchdog(self, now: float) -> None:
        """Send a sign of life twice per watchdog interval; call it from the working loop.

        Before `ready` it also extends the time to start: a daemon may wait for another host for ever, but not hang.
        """
        if now >= self.deadline:
            self.deadline = now + self._interval
            more = f"\nEXTEND_TIMEOUT_USEC={2e6 * self._interval:.0f}" if self._starting else ""
            self._send(f"WATCHDOG=1{more}")

    def _send(self, state: str) -> None:
        if not self._address:
            return
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as outlet:
            outlet.settimeout(1.0)
            outlet.sendto(state.encode(), self._address)


def _watchdog_seconds(environ: Mapping[str, str]) -> float:
    """Return the seconds of silence after which systemd kills this process; infinite if systemd does not watch it."""
    written = environ.get("WATCHDOG_USEC", "")
    meant = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    return int(written) / 1e6 if meant and written.isdecimal() and int(written) else math.inf
