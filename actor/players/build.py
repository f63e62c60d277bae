"""The player for what a run exchanges: the one place where the actor compares its name."""

from actor.outbox import Outbox
from actor.players.base import Player
from common.settings.sections import Settings
from common.wire.frames import Buffer
from common.wire.messages import Welcome


def build(welcome: Welcome, settings: Settings, body: Buffer | None, outbox: Outbox) -> Player:
    """The player for what the run exchanges; `body` holds weights, requests for actions go into `outbox`.

    Raises EnvironmentMissingError where this host lacks the environment, RefusedError where its network differs.
    """
    if settings.exchange.kind == "actions":
        from actor.players.environments import EnvironmentPlayer

        return EnvironmentPlayer(welcome, settings, outbox)
    from actor.players.gradients import GradientPlayer
    from actor.players.trajectories import TrajectoryPlayer

    kind = TrajectoryPlayer if settings.exchange.kind == "trajectories" else GradientPlayer
    return kind(welcome, settings, body)
