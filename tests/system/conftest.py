"""One trained agent for all, and daemons that are gone after the test."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from common.host.addresses import DEFAULT_PORT
from tests.helpers.daemons import Daemon, Daemons
from tests.helpers.daemons import daemons as some_daemons


@pytest.fixture(scope="session", autouse=True)
def usual_port_in_use() -> Iterator[None]:
    """Each training takes a port of its own.

    Actors of one that was killed look for their learner a while longer, and another that listens there lets them in.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # somebody else uses it: as good
            stack.enter_context(socket.create_server(("127.0.0.1", DEFAULT_PORT)))
        yield


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[Daemons]:
    """For one test."""
    with some_daemons(tmp_path) as one:
        yield one


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemons]:
    """For all tests of a file."""
    with some_daemons(tmp_path_factory.mktemp("house")) as one:
        yield one


@dataclass(frozen=True)
class Training:
    """A training that has ended."""

    daemon: Daemon
    code: int
    run_dir: Path


@pytest.fixture(scope="session")
def training(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Training]:
    """CartPole with its preset and two actors, until it is learnt."""
    with some_daemons(tmp_path_factory.mktemp("training")) as house:
        run_dir = house.folder / "run"
        daemon = house.start(
            *("train", "CartPole-v1", "--seed", 1, "--until-return", 195, "--frames", 400_000, "--seconds", 120),
            *("--json", "--run-dir", run_dir),
        )
        yield Training(daemon, daemon.wait(200), run_dir)
