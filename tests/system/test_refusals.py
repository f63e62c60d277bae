"""What cannot be is said in one line, with the exit code that a service manager needs."""

from __future__ import annotations

import socket

import pytest

from common.errors import EXIT_CONFIGURATION, EXIT_TRY_LATER, EXIT_USAGE
from tests.helpers.daemons import Daemon, Daemons, free_address
from tests.system.conftest import Training

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]


def refused(daemon: Daemon, *words: str) -> None:
    """One line, that says all this; nothing on stdout, nobody left."""
    (line,) = daemon.errors
    for word in words:
        assert word in line
    assert daemon.printed == ""
    assert daemon.family() == []


def test_an_unknown_setting(daemons: Daemons) -> None:
    config = daemons.config("[optimizer]\nlearning_rat = 1\n")
    daemon = daemons.run("learner", "--config", config, "--run-dir", "run", code=EXIT_CONFIGURATION)
    refused(daemon, str(config), "optimizer.learning_rat is no setting", "did you mean optimizer.learning_rate?")
    assert not (daemons.folder / "run").exists()


def test_a_missing_file(daemons: Daemons) -> None:
    daemon = daemons.run("learner", "--config", "no.toml", "--run-dir", "run", code=EXIT_CONFIGURATION)
    refused(daemon, "no.toml: No such file or directory")


def test_an_impossible_value_on_the_command_line(daemons: Daemons) -> None:
    daemon = daemons.run("train", "CartPole-v1", "--set", "optimizer.learning_rate=-1", code=EXIT_CONFIGURATION)
    refused(daemon, "optimizer.learning_rate = -1", "above 0")


def test_bad_usage(daemons: Daemons) -> None:
    daemon = daemons.run("actor", "nonsense:::", code=EXIT_USAGE)
    assert "Usage: a3cd actor" in daemon.said
    assert "is no address" in daemon.said
    assert "needs --config FILE" in daemons.run("learner", code=EXIT_USAGE).said


@pytest.mark.parametrize("offset", [0, 1])
def test_a_port_in_use(daemons: Daemons, offset: int) -> None:
    address = free_address()
    with socket.create_server((address.host, address.port + offset)):
        daemon = daemons.run(
            *("learner", "--config", daemons.config("seed = 1"), "--bind", address, "--run-dir", "run"),
            code=EXIT_TRY_LATER,
        )
    refused(daemon, f"{address.with_port(address.port + offset)} is in use", "--bind")
    assert not (daemons.folder / "run").exists()


def test_an_environment_that_does_not_exist(daemons: Daemons) -> None:
    daemon = daemons.run("train", "CartPol-v1", "--actors", 1, "--run-dir", "run", "--json", code=EXIT_CONFIGURATION)
    refused(daemon, "environment CartPol-v1 does not exist", "did you mean CartPole-v1")
    assert daemon.said.splitlines() == daemon.errors, "nothing was started that could have said more"
    assert not (daemons.folder / "run").exists(), "the command, mended, must find the folder free"


def test_a_device_that_is_not_there(daemons: Daemons) -> None:
    """Which only the learner can tell, for it has torch."""
    words = ("--set", "optimizer.device='cuda:99'", "--run-dir", "run", "--json")
    daemon = daemons.run("train", "CartPole-v1", *words, code=EXIT_CONFIGURATION)
    refused(daemon, 'optimizer.device: "cuda:99" is not there')
    assert daemon.said.splitlines()[-1:] == daemon.errors
    assert not (daemons.folder / "run").exists()


def test_an_environment_that_cannot_be_learnt(daemons: Daemons) -> None:
    config = daemons.config('environment.id = "broken_environments:OddSpace-v0"')
    daemon = daemons.run(
        *("learner", "--config", config, "--bind", free_address(), "--run-dir", "run"), code=EXIT_CONFIGURATION
    )
    refused(
        daemon, "action space Tuple(Discrete(2), Discrete(3)) is not supported; Discrete, MultiDiscrete and Box are"
    )
    assert not (daemons.folder / "run").exists()


def test_a_folder_that_holds_a_run(daemons: Daemons, training: Training) -> None:
    before = sorted(training.run_dir.rglob("*"))
    daemon = daemons.run("train", "CartPole-v1", "--run-dir", training.run_dir, "--json", code=EXIT_CONFIGURATION)
    refused(daemon, str(training.run_dir), "holds run", "--resume")
    assert sorted(training.run_dir.rglob("*")) == before


def test_a_run_of_another_environment_is_not_resumed(daemons: Daemons, training: Training) -> None:
    config = daemons.config('environment.id = "Acrobot-v1"')
    daemon = daemons.run(
        *("learner", "--config", config, "--bind", free_address(), "--run-dir", training.run_dir, "--resume"),
        code=EXIT_CONFIGURATION,
    )
    refused(daemon, "environment.id is 'CartPole-v1', not 'Acrobot-v1'")


def test_a_wrong_list_of_peers_leaves_the_run_as_it_was(daemons: Daemons, training: Training) -> None:
    keys = daemons.folder / "keys"
    daemons.run("keys", "--keys", keys, "new", "learner")
    (keys / "allowed").write_text("nonsense\n")
    record = (training.run_dir / "run.json").read_bytes()
    words = ("--bind", free_address(), "--keys", keys, "--run-dir", training.run_dir, "--resume")
    refused(daemons.run("learner", *words, code=EXIT_CONFIGURATION), "allowed, line 1: write a public key, a name")
    assert (training.run_dir / "run.json").read_bytes() == record


def test_a_folder_without_a_run_is_not_resumed(daemons: Daemons) -> None:
    daemon = daemons.run("train", "CartPole-v1", "--run-dir", "run", "--resume", code=EXIT_CONFIGURATION)
    refused(daemon, "run: there is no such folder")


def test_a_learner_that_is_not_there(daemons: Daemons) -> None:
    address = free_address()
    daemon = daemons.run("status", address, "--timeout", 1, code=EXIT_TRY_LATER)
    refused(daemon, f"no learner answers at {address}")
