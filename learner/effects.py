"""What the learner's core wants done. The shell does it, in order, before it calls the core again."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from common.errors import ProtocolError, WireError
from common.run.status import EvaluationStatus, RunStatus
from common.wire.frames import Buffer
from common.wire.messages import AnyMessage, Goodbye, RefusalCode, Refused
from learner.applied import AnyEntry

if TYPE_CHECKING:
    from torch import Tensor  # seconds of import, which the daemon puts off until its ports and folder are taken

Ending = Literal["reached", "finished", "stopped", "failed"]


class Send(msgspec.Struct, frozen=True):  # made for each message: six times as fast as a dataclass
    peer: bytes
    message: AnyMessage
    body: Buffer | None = None


@dataclass(frozen=True)
class Disconnect:
    """Ends the connections of a peer. One that is honest is back in a moment, and says hello."""

    peer: bytes
    ban_seconds: float = 0.0
    """Above 0, no new connections meanwhile: with its key; without keys from its address, unless that is loopback."""


@dataclass(frozen=True)
class Publish:
    frame: bytes
    """To all subscribers."""


@dataclass(frozen=True)
class WriteMetrics:
    row: Mapping[str, Any]


@dataclass(frozen=True)
class Record:
    """One entry, with the contribution's body if it has one, for the record of what was applied."""

    entry: AnyEntry
    body: Buffer | None = None


@dataclass(frozen=True)
class SaveCheckpoint:
    """A checkpoint. The tensors are those in use, not copies: the next step changes them."""

    version: int
    weights: Tensor
    """(parameters,) float32."""
    optimizer: Mapping[str, Tensor]
    """Everything besides the weights that the next step depends on."""
    state: dict[str, Any]
    """As JSON can hold it."""
    score: float | None
    """Mean return of a full window; None or NaN: this checkpoint cannot be the best by it."""
    last_evaluation: EvaluationStatus | None = None
    """Of the run so far."""
    under_evaluation: Collection[int] = ()
    """Versions whose checkpoints are kept for now: they may turn out to be the best."""


@dataclass(frozen=True)
class RateCheckpoint:
    """Note in the checkpoint of this version, written since this learner began, how it was evaluated: it is the best.

    One that is not on the disk (any more) stays away.
    """

    version: int
    evaluation: EvaluationStatus


@dataclass(frozen=True)
class ReadBest:
    """Read the best checkpoint; `LearnerCore.best_read` is to be told."""


@dataclass(frozen=True)
class Log:
    """A line for the operator; lines with the same `key` are counted, and printed once in a while.

    Lines that peers can cause are few a second in all; `own`: this one is not of them, and is never held back.
    """

    level: Literal["info", "warning", "error"]
    text: str
    key: str = ""
    own: bool = False


@dataclass(frozen=True)
class Finish:
    """The run is over; `status` covers all of it."""

    ending: Ending
    reason: str
    status: RunStatus


Effect = Send | Disconnect | Publish | WriteMetrics | Record | SaveCheckpoint | RateCheckpoint | ReadBest | Log | Finish


def refuse(peer: bytes, code: RefusalCode, reason: str) -> Send:
    return Send(peer, Refused(code=code, reason=reason))


def refuse_stranger(peer: bytes, message: AnyMessage) -> list[Send]:
    """The answer to a message of one who is not in the run."""
    return [] if isinstance(message, Goodbye) else [refuse(peer, "unknown", "say hello first")]


def refuse_noise(peer: bytes, error: WireError, *, stranger: bool) -> list[Effect]:
    """The answer to bytes that are no message, or one of another version of the protocol."""
    if isinstance(error, ProtocolError):
        return [refuse(peer, "protocol", str(error)), Log("warning", f"a peer was refused: {error}", key="protocol")]
    line = Log("warning", f"a peer sent bytes that are no message: {error}", key="malformed")
    return [line, Disconnect(peer)] if stranger else [line]  # reading takes time
