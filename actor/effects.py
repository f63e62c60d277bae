"""What an actor's or evaluator's core wants done. The shell does it, in order, before it calls the core again."""

from dataclasses import dataclass

from actor.outbox import Send
from common.settings.sections import Settings
from common.wire.frames import Buffer
from common.wire.messages import Welcome


@dataclass(frozen=True)
class Prepare:
    """Close the player, if any, and build one for this run, with the weights in `body`."""

    welcome: Welcome
    settings: Settings
    body: Buffer | None


@dataclass(frozen=True)
class Warn:
    """Something failed and it goes on: log it."""

    text: str


@dataclass(frozen=True)
class Leave:
    reason: str


Effect = Send | Prepare | Warn | Leave
