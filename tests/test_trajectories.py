"""Actors that send what they played: the two ends agree on what is learnt from it, alone and over real sockets."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from actor.outbox import Outbox
from actor.players.base import Player
from actor.players.build import build as build_player
from common.rl.environments.make import make as make_environments
from common.rl.networks.model import TorchModel, build
from common.run.folder import RunFolder
from common.settings.sections import Settings
from common.wire.bodies.trajectory import TrajectoryFormat
from common.wire.codecs.registry import make as make_codec
from common.wire.messages import Acknowledgement, Trajectory
from learner.daemon import run
from learner.parameters.batch_trainer import BatchTrainer
from learner.parameters.gradient_sum import GradientSum
from learner.parameters.optimizers import make as make_optimizer
from learner.parameters.weights import Weights
from tests.helpers.daemons import free_address
from tests.helpers.run import gradient_of, hello_of, learner_of, sent, settings_of, welcome_of

SMALL = ("network.hidden=[8]", "environment.num_envs=3", "algorithm.rollout_length=6", "algorithm.max_grad_norm=0.0")
FOREVER = math.inf
ROOT = Path(__file__).parents[1]


def model_of(settings: Settings) -> tuple[TorchModel, Any]:
    environments = make_environments(settings.environment, num_envs=1, seed=0)
    try:
        observation = environments.observation
        model = build(settings, observation, environments.action)
        return model, TrajectoryFormat(settings, observation, environments.action, model.network.state_size)
    finally:
        environments.close()


def weights_of(settings: Settings, vector: torch.Tensor) -> Weights:
    return Weights(make_optimizer(settings.optimizer, vector, 0), np.zeros(0, np.float32))


def player_of(settings: Settings, codec: str = "none") -> Player:
    model, _ = model_of(settings)
    body = make_codec("none", model.flat.size).encode(model.vector)
    return build_player(welcome_of(model=model.flat.hash, codec=codec, seed=5), settings, body, Outbox())


@pytest.mark.parametrize("codec", ["none", "none+zstd"])
@pytest.mark.parametrize("kind", ["a3c", "a2c", "vtrace"])
def test_a_learner_steps_on_trajectories_as_on_the_gradients_of_the_same_rollouts(kind: str, codec: str) -> None:
    own = settings_of(*SMALL, f"algorithm.kind={kind}", "exchange.kind=trajectories")
    plain = "none" if kind == "a2c" else "vtrace"
    usual = settings_of(*SMALL, f"algorithm.correction={plain}")
    model, packing = model_of(own)
    vector = model.flat.vector.clone()
    gradients = GradientSum(weights_of(usual, vector))
    trainer = BatchTrainer(model, weights_of(own, model.flat.vector), own.algorithm)
    there, here = player_of(usual), player_of(own, codec)
    try:
        assert there.advance(FOREVER) and here.advance(FOREVER)
        (ours, gradient), (theirs, rollout) = there.pack(1), here.pack(1)
        assert (ours.steps, ours.version, ours.count) == (theirs.steps, theirs.version, theirs.count) == (18, 10, 1)
        assert theirs.statistics == {}
        gradients.add(gradient, "none", weight=0.5)
        trainer.add(packing.unpack(rollout, codec, 1), weight=0.5)
    finally:
        there.close()
        here.close()
    gradients.step(scale=0.5, frames=0)
    learnt = trainer.step(scale=0.5, frames=0)
    assert learnt.statistics == pytest.approx(ours.statistics, rel=1e-4, abs=1e-6)
    assert not learnt.left_out
    torch.testing.assert_close(model.flat.vector, vector, rtol=1e-4, atol=1e-6)


def test_a_learner_takes_what_its_run_exchanges_and_shows_the_loss_it_computed() -> None:
    core, store = learner_of("exchange.kind=trajectories")
    store.learnt = {"entropy": 0.25, "kl": 0.125, "another": 1.0}
    core.handle(0.0, b"x", hello_of("x"), None)
    plain = gradient_of()
    (refused,) = sent(core.handle(0.0, b"x", plain, b"body"), Acknowledgement)
    assert (refused.verdict, refused.why) == ("refused", "this run takes trajectories")
    fields = {name: getattr(plain, name) for name in Trajectory.__struct_fields__ if name != "sequence"}
    effects = core.handle(0.0, b"x", Trajectory(**fields, sequence=2), b"body")
    (applied,) = sent(effects + core.flush(0.0), Acknowledgement)
    assert (applied.sequence, applied.verdict, applied.version) == (2, "applied", 1)
    row = core.run.metrics(1.0)
    assert (row["entropy"], row["kl"], row["gradients"]) == (0.25, 0.125, 1)
    assert "another" not in row


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "assignments",
    [
        ("algorithm.kind=a2c",),
        ("algorithm.kind=ppo", "exchange.entropy_coder=lz4"),
        ("algorithm.kind=ppo", "environment.id=Pendulum-v1", "network.lstm=4", "network.normalize=true"),
        ("algorithm.kind=ppo", "exchange.kind=gradients"),
    ],
)
@pytest.mark.slow
def test_over_real_sockets(assignments: tuple[str, ...], tmp_path: Path) -> None:
    settings = settings_of(*SMALL, *assignments, "limits.frames=1500", "exchange.heartbeat_seconds=0.2")
    address = free_address()
    with subprocess.Popen(
        [sys.executable, "-m", "deploy.cli.command", "actor", str(address)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        cwd=tmp_path,
    ) as child:
        try:
            assert run(settings, bind=address, keys=None, run_dir=tmp_path / "run", resume=False) == 0
            assert child.wait(60) == 0
        finally:
            child.kill()
    folder = RunFolder(tmp_path / "run")
    summary = json.loads(folder.summary_file.read_text())
    assert summary["algorithm"] == settings.algorithm.kind
    assert summary["frames"] >= 1500 and summary["gradients"] > 10 and summary["refused"] == 0
    losses = [json.loads(line) for line in folder.metrics_file.read_text().splitlines()][-1]
    most = 1.6 if "environment.id=Pendulum-v1" in assignments else 0.7  # a normal distribution's, or of two choices
    assert math.isfinite(losses["policy_loss"]) and 0 < losses["entropy"] < most
    newest = folder.newest()
    assert newest is not None
    model, _ = model_of(settings)
    assert not torch.equal(torch.from_numpy(newest.read().weights), model.flat.vector)
    kind = folder.settings().exchange.kind
    assert kind == ("gradients" if "exchange.kind=gradients" in assignments else "trajectories")
