"""Where torch is not installed: actors of dense networks play, and all others name the cure."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import tests.helpers
from common.errors import EXIT_CONFIGURATION
from tests.helpers.daemons import BROKEN, Daemons, free_address, status_when, terminate
from tests.helpers.daemons import daemons as some_daemons

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

NO_TORCH = Path(tests.helpers.__path__[0]) / "no_torch"
CURE = "needs torch, which is not installed here: pip install 'a3cd[torch]'"
SETTINGS = """
[environment]
id = "CartPole-v1"
step_seconds = 0.002 # a core is left for the tests
"""


@pytest.fixture
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemons]:
    """Starts `a3cd` without torch."""
    with some_daemons(tmp_path_factory.mktemp("bare"), ("env", f"PYTHONPATH={NO_TORCH}{os.pathsep}{BROKEN}")) as one:
        yield one


@pytest.mark.parametrize(
    ("settings", "algorithm"),
    [
        ("exchange.kind='gradients'", "a3c"),
        ("exchange.kind='gradients' exchange.codec='int8' exchange.weights='delta'", "a3c"),
        ("exchange.kind='gradients' exchange.codec='top-k' exchange.credit=1 network.normalize=true", "a3c"),
        ("exchange.kind='gradients'", "n-step-q"),
        ("exchange.kind='trajectories'", "ppo"),
        ("exchange.kind='actions'", "a3c"),
    ],
)
def test_an_actor_of_a_dense_network_plays(daemons: Daemons, bare: Daemons, settings: str, algorithm: str) -> None:
    address = free_address()
    words = [word for one in (*settings.split(), f"algorithm.kind='{algorithm}'") for word in ("--set", one)]
    run = daemons.folder / "run"
    learner = daemons.start(
        *("learner", "--config", daemons.config(SETTINGS), "--bind", address, "--run-dir", run, *words)
    )
    actor = bare.start("actor", address, "--name", "bare")
    status = status_when(
        address, lambda status: status.frames > 500 and status.version > 5, "frames of an actor without torch"
    )
    assert [peer.name for peer in status.actors] == ["bare"]
    assert "WARNING" not in actor.said and "error" not in actor.said
    terminate(actor, learner)


def test_an_actor_whose_network_needs_torch_ends_with_the_cure(daemons: Daemons, bare: Daemons) -> None:
    address = free_address()
    daemons.start(
        *("learner", "--config", daemons.config(SETTINGS), "--bind", address, "--run-dir", daemons.folder / "lstm"),
        *("--set", "network.lstm=8"),
    )
    actor = bare.run("actor", address, code=EXIT_CONFIGURATION)
    assert [CURE in line for line in actor.errors] == [True]


@pytest.mark.parametrize("command", ["train", "learner"])
def test_a_learner_ends_with_the_cure(bare: Daemons, command: str) -> None:
    words = ["CartPole-v1"] if command == "train" else ["--config", bare.config(SETTINGS), "--bind", free_address()]
    started = bare.run(command, *words, "--run-dir", "run", code=EXIT_CONFIGURATION)
    assert CURE in started.errors[-1]
    assert not (bare.folder / "run").exists()
