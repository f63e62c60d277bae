"""The player for what a run exchanges: the one place where the actor compares its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actor.outbox import Outbox
from actor.players.base import Player
from common.settings.sections import Settings
from common.wire.frames import Buffer
from common.wire.messages import Welcome

if TYPE_CHECKING:
    from common.rl.environments.base import MakeEnvironments  # loads numpy, which an actor does after its hello


def build(
    welcome: Welcome,
    settings: Settings,
    body: Buffer | None,
    outbox: Outbox,
    *,
    make: MakeEnvironments | None = None,
) -> Player:
    """The player for what the run exchanges; `body` holds weights, requests for actions go into `outbox`.

    make: makes the environments; None: `common.rl.environments.make`.
    Raises EnvironmentMissingError where this host lacks the environment, RefusedError where its network differs.
    """
    if settings.exchange.kind == "actions":
        from actor.players.environments import EnvironmentPlayer

        return EnvironmentPlayer(welcome, settings, outbox, make)
    from actor.players.gradients import GradientPlayer
    from actor.players.trajectories import TrajectoryPlayer

    kind = TrajectoryPlayer if settings.exchange.kind == "trajectories" else GradientPlayer
    return kind(welcome, settings, body, make)
