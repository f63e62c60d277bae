from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import torch

from actor.agent.trained_agent import open_run
from actor.export.policy import policy_of

MakeRun = Callable[..., Path]


def test_what_is_said_of_it(trained_run: MakeRun) -> None:
    path = trained_run("environment.frame_stack=2", "network.lstm=8", "algorithm.kind=ppo", "network.hidden=[8]")
    policy = policy_of(open_run(path, "best"), "mine")
    metadata = policy.metadata
    assert {key: metadata[key] for key in ("run", "environment", "algorithm", "version", "state_size")} == {
        "run": "mine",
        "environment": "CartPole-v1",
        "algorithm": "ppo",
        "version": "1",
        "state_size": "16",
    }
    observation = json.loads(metadata["observation"])
    assert (observation["kind"], observation["shape"], observation["frame_stack"]) == ("box", [8], 2)
    assert json.loads(metadata["action"])["sizes"] == [2]
    assert "(lstm): LSTMCell(8, 8)" in metadata["network"]
    assert policy.inputs == ["observation", "state"]
    assert policy.outputs == ["action", "policy", "value", "next_state"]
    assert [tuple(one.shape) for one in policy.example(3)] == [(3, 8), (3, 16)]


def test_of_a_box_and_of_pictures(trained_run: MakeRun) -> None:
    path = trained_run("environment.id=Pendulum-v1", "environment.observation=frames", "environment.frame_stack=1")
    policy = policy_of(open_run(path, "best"), "mine")
    assert json.loads(policy.metadata["action"])["squashed"] == [False]
    (example,) = policy.example(2)
    assert (example.dtype, tuple(example.shape)) == (torch.uint8, (2, 1, 84, 84))
    assert policy.outputs == ["action", "policy", "value"]
