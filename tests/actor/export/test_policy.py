from __future__ import annotations

import json
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
import torch

from actor.agent.trained_agent import open_run
from actor.export.policy import policy_of
from common.host.versions import own_version

MakeRun = Callable[..., Path]


def test_what_is_said_of_it(trained_run: MakeRun) -> None:
    path = trained_run("environment.frame_stack=2", "network.lstm=8", "algorithm.kind=ppo", "network.hidden=[8]")
    policy = policy_of(open_run(path, "best"), "mine")
    said = policy.metadata
    assert {key: said[key] for key in ("run", "environment", "algorithm", "version", "state_size")} == {
        "run": "mine",
        "environment": "CartPole-v1",
        "algorithm": "ppo",
        "version": "1",
        "state_size": "16",
    }
    observation = json.loads(said["observation"])
    assert (observation["kind"], observation["shape"], observation["frame_stack"]) == ("box", [8], 2)
    assert json.loads(said["action"])["sizes"] == [2]
    assert "(lstm): LSTMCell(8, 8)" in said["network"]
    assert policy.inputs == ["observation", "state"]
    assert policy.outputs == ["action", "policy", "value", "next_state"]
    assert [tuple(one.shape) for one in policy.example(3)] == [(3, 8), (3, 16)]


def test_in_a_clone_that_is_not_installed_its_version_of_a3cd_is_unknown(
    trained_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = metadata.Distribution.from_name

    def without(name: str) -> metadata.Distribution:
        if name == "a3cd":
            raise metadata.PackageNotFoundError(name)
        return found(name)

    path = trained_run()
    own_version.cache_clear()
    try:
        monkeypatch.setattr(metadata.Distribution, "from_name", without)
        assert policy_of(open_run(path, "best"), "mine").metadata["a3cd"] == "unknown"
    finally:
        own_version.cache_clear()


def test_of_a_box_and_of_pictures(trained_run: MakeRun) -> None:
    path = trained_run("environment.id=Pendulum-v1", "environment.observation=frames", "environment.frame_stack=1")
    policy = policy_of(open_run(path, "best"), "mine")
    assert json.loads(policy.metadata["action"])["squashed"] == [False]
    (example,) = policy.example(2)
    assert (example.dtype, tuple(example.shape)) == (torch.uint8, (2, 1, 84, 84))
    assert policy.outputs == ["action", "policy", "value"]
