"""What the core of an actor or an evaluator asks its shell to do, in order, before the shell calls the core again."""

from dataclasses import dataclass

from actor.outbox import Send
from common.settings.sections import Settings
from common.wire.frames import Buffer
from common.wire.messages import Welcome


@dataclass(frozen=True)
class Prepare:
    """Close the player, if any, and build one for this run; `body` holds its weights, if any."""

    welcome: Welcome
    settings: Settings
    body: Buffer | None


@dataclass(frozen=True)
class Warn:
    """Log a failure after which the daemon goes on."""

    text: str


@dataclass(frozen=True)
class Leave:
    reason: str


Effect = Send | Prepare | Warn | Leave
