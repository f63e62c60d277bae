"""What the learner's core wants done; the shell does it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from common.wire.frames import Buffer
from common.wire.messages import AnyMessage, RefusalCode, Refused

Ending = Literal["reached", "finished", "stopped", "failed"]


@dataclass(frozen=True)
class Send:
    """A message to one peer."""

    peer: bytes
    message: AnyMessage
    body: Buffer | None = None


@dataclass(frozen=True)
class Publish:
    """A frame to all subscribers."""

    frame: bytes


@dataclass(frozen=True)
class Record:
    """A row of metrics is due."""


@dataclass(frozen=True)
class Save:
    """A checkpoint is due."""


@dataclass(frozen=True)
class Log:
    """A line for the operator; `key` groups repetitions, which are counted, not printed."""

    level: Literal["info", "warning", "error"]
    text: str
    key: str = ""


@dataclass(frozen=True)
class Finish:
    """The run is over."""

    ending: Ending
    reason: str


Effect = Send | Publish | Record | Save | Log | Finish


def refuse(peer: bytes, code: RefusalCode, reason: str) -> Send:
    """The refusal of a peer."""
    return Send(peer, Refused(code=code, reason=reason))
