"""Builds the player for a run's exchange; the only place where the actor looks at `exchange.kind`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actor.outbox import Outbox
from actor.players.base import Player
from common.settings.sections import Settings
from common.wire.frames import Buffer
from common.wire.messages import Welcome

if TYPE_CHECKING:
    from common.rl.environments.base import MakeEnvironments  # loads numpy, which an actor loads after its hello


def build(
    welcome: Welcome,
    settings: Settings,
    body: Buffer | None,
    outbox: Outbox,
    *,
    make: MakeEnvironments | None = None,
) -> Player:
    """Returns the player for the run's exchange; `body` holds its weights, and `outbox` takes requests for actions.

    make: makes the environments; None: `common.rl.environments.make`.
    Raises EnvironmentMissingError if this host lacks the environment, RefusedError if its network differs.
    """
    if settings.exchange.kind == "actions":
        from actor.players.environments import EnvironmentPlayer

        return EnvironmentPlayer(welcome, settings, outbox, make)
    from actor.players.gradients import GradientPlayer
    from actor.players.trajectories import TrajectoryPlayer

    kind = TrajectoryPlayer if settings.exchange.kind == "trajectories" else GradientPlayer
    return kind(welcome, settings, body, make)
