"""From the command line's words to a launcher with its backend."""

from __future__ import annotations

import os
import platform

from common.addresses import Address
from deploy.backends.base import Backend
from deploy.backends.process import ProcessBackend, actor_command, actor_name
from deploy.launcher.shell import run


def start(address: Address, *, slots: int, start_with: str, name: str, warm: int) -> int:
    """Runs a launcher whose actors are started with `start_with`; returns its exit code."""
    name = name or f"{platform.node() or 'launcher'}-{os.getpid()}"
    return run(address, slots=slots, backend=_backend(start_with, address, name), name=name, warm=warm)


def _backend(kind: str, address: Address, launcher: str) -> Backend:
    match kind:
        case "process":
            return ProcessBackend(
                lambda slot: actor_command(address, launcher, slot), lambda slot: actor_name(launcher, slot)
            )
        case _:
            raise ValueError(f"no backend is called {kind!r}")
