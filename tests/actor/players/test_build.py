from __future__ import annotations

import pytest
import torch

from actor.outbox import Outbox
from actor.players.base import Player
from actor.players.build import build
from actor.players.environments import EnvironmentPlayer
from actor.players.gradients import GradientPlayer
from actor.players.trajectories import TrajectoryPlayer
from common.rl.environments.make import make
from common.rl.networks.model import build as build_model
from tests.helpers.run import settings_of, welcome_of


@pytest.mark.parametrize(
    ("exchange", "kind"),
    [("gradients", GradientPlayer), ("trajectories", TrajectoryPlayer), ("actions", EnvironmentPlayer)],
)
def test_the_player_is_that_of_the_run_s_exchange(
    exchange: str, kind: type[Player], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    settings = settings_of(f"exchange.kind={exchange}", "network.hidden=[4]", "environment.num_envs=2")
    environments = make(settings.environment, num_envs=1, seed=0)
    model = build_model(settings, environments.observation, environments.action).flat.hash
    environments.close()
    player = build(welcome_of(model=model), settings, None, Outbox())
    assert type(player) is kind
    assert player.ready and player.pending == 0
    player.close()
