"""A machine with a real systemd on which a3cd is installed as `a3cd deploy` does it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from deploy.install.software import find
from tests.systemd.login import ssh_to
from tests.systemd.machine import Machine, machine
from tests.systemd.service import Service

Deploy = Callable[..., list[str]]
"""`a3cd deploy` to the machine; the lines that it prints."""
_SYSTEM_PYTHON = "/usr/bin/python3"
_SHARED = "/opt/site-packages"
"""Where the machine finds torch and the others of this very environment: nothing is downloaded."""


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    """a3cd as it is now, as a wheel."""
    return find(None, None, tmp_path_factory.mktemp("wheel"))


@contextmanager
def prepared(name: str, venv: str = "/opt/a3cd") -> Iterator[Machine]:
    """Booted, with a virtual environment of the system's Python that has all but a3cd."""
    asked = [_SYSTEM_PYTHON, "-c", "import sys, venv, ensurepip; print(*sys.version_info[:2], sep='.')"]
    if not Path(_SYSTEM_PYTHON).exists():
        pytest.skip(f"there is no {_SYSTEM_PYTHON}")
    found = subprocess.run(asked, capture_output=True, text=True, check=False)
    if found.stdout.strip() != "{}.{}".format(*sys.version_info[:2]):
        pytest.skip(f"{_SYSTEM_PYTHON} cannot use the packages of Python {sys.version}: {found.stdout or found.stderr}")
    with machine(name, f"--bind-ro={Path(msgspec.__file__).parents[1]}:{_SHARED}") as one:
        one.boot()
        one.run(_SYSTEM_PYTHON, "-m", "venv", "--without-pip", venv)
        (packages,) = (one.root / venv.lstrip("/") / "lib").glob("python3*/site-packages")
        (packages / "shared.pth").write_text(f"{_SHARED}\n")
        yield one


@pytest.fixture(scope="module")
def host() -> Iterator[Machine]:
    """One machine for all tests of a file."""
    with prepared("box") as one:
        yield one


@pytest.fixture(scope="module")
def service(host: Machine, wheels: tuple[Path, ...]) -> Service:
    """Learner and launcher deployed, two actors at work."""
    one = Service(host, wheels)
    one.deploy_learner()
    one.deploy_launcher()
    one.training()
    return one


@pytest.fixture
def deploy(host: Machine, tmp_path: Path, wheels: tuple[Path, ...]) -> Deploy:
    ssh_config = ssh_to(tmp_path, host)

    def run(verb: str, *arguments: object, code: int = 0) -> list[str]:
        given = [*arguments, *(() if verb in ("status", "remove") else ("--wheel", wheels[0]))]
        words = ["deploy", verb, "--to", "root@box", "--ssh-config", ssh_config, "--python", "/usr/bin/python3", *given]
        command = [sys.executable, "-P", "-m", "deploy.cli.command", *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"HOME": "/nonexistent"})
        assert done.returncode == code, done.stdout + done.stderr
        return (done.stderr if code else done.stdout).splitlines()

    return run
