"""What is installed on a host: a wheel of this a3cd, or one given, in a virtual environment of the host's Python."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from common.errors import ConfigurationError, UnavailableError
from deploy.install.layout import Layout
from deploy.install.step import Command, File, Folder, Step, Word, at

_PROJECT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Software:
    """What is installed."""

    wheel: Path
    wheelhouse: tuple[Path, ...] = ()
    """Wheels of all it needs, for hosts without a package index; empty: the host's pip finds them."""


def find(wheel: Path | None, wheelhouse: Path | None, scratch: Path) -> Software:
    """The wheel given, or one built of the source tree that this command runs from into `scratch`.

    Raises ConfigurationError for files that are not there, UnavailableError where no wheel can be built.
    """
    for given in (wheel, wheelhouse):
        if given is not None and not given.exists():
            raise ConfigurationError(f"{given} does not exist")
    kept = () if wheelhouse is None else tuple(sorted(wheelhouse.glob("*.whl")))
    if wheelhouse is not None and not kept:
        raise ConfigurationError(
            f"{wheelhouse} holds no wheel: fill it with `pip download --dest {wheelhouse} a3cd.whl`"
        )
    chosen = wheel or _build(scratch)
    return Software(chosen, tuple(path for path in kept if path.name != chosen.name))


def _build(scratch: Path) -> Path:
    if not (_PROJECT / "pyproject.toml").exists():
        raise ConfigurationError(
            "a3cd does not run from its source tree here: name the wheel to install with --wheel FILE"
        )
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(scratch), str(_PROJECT)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    built = sorted(scratch.glob("a3cd-*.whl"))
    if done.returncode or not built:
        raise UnavailableError(f"no wheel could be built (name one with --wheel FILE): {done.stderr.strip()[-1000:]}")
    return built[-1]


def installed(layout: Layout, python: str, software: Software) -> list[Step]:
    """Virtual environment, what a3cd needs, a3cd."""
    files = [File(f"{layout.wheels}/{path.name}", path) for path in (software.wheel, *software.wheelhouse)]
    wheel, mark = at(files[0].path), files[0].digest
    pip: list[Word] = [at(f"{layout.venv}/bin/python"), "-m", "pip", "install", "--quiet"]
    found: list[Word] = ["--no-index", "--find-links", at(layout.wheels)] if software.wheelhouse else []
    # pip leaves another wheel of the same version alone unless it is told not to.
    again: list[Word] = ["--no-deps", "--no-index", "--force-reinstall"]
    return [
        Command(
            f"virtual environment {layout.venv}",
            [python, "-m", "venv", at(layout.venv)],
            {"succeeds": [at(f"{layout.venv}/bin/python"), "-m", "pip", "--version"]},
        ),
        Folder(layout.wheels, 0o755),
        *files,
        Command("what a3cd needs", [*pip, *found, wheel], {"marked": [f"{layout.venv}/needs", mark]}),
        Command(
            f"a3cd in {layout.venv}",
            [*pip, *again, wheel],
            {"marked": [f"{layout.venv}/wheel", mark], "exists": layout.a3cd},
        ),
    ]
