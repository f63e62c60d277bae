"""Effects: what the learner's core wants done. The shell carries them out, in order, before it calls the core again."""

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
    from torch import Tensor  # the import takes seconds, so the daemon defers it until it has its ports and folder

Ending = Literal["reached", "finished", "stopped", "failed"]


class Send(msgspec.Struct, frozen=True):  # one is made for each message: six times as fast as a dataclass
    peer: bytes
    message: AnyMessage
    body: Buffer | None = None


@dataclass(frozen=True)
class Disconnect:
    """End the connections of a peer. An honest peer reconnects in a moment, and says hello."""

    peer: bytes
    ban_seconds: float = 0.0
    """If above 0, no new connections for this long: with the peer's key; without keys, from its address unless that is
    loopback."""


@dataclass(frozen=True)
class Publish:
    frame: bytes
    """The broadcast to all subscribers."""


@dataclass(frozen=True)
class WriteMetrics:
    """Write a row of metrics, and do as `ShowStatus`."""

    row: Mapping[str, Any]


@dataclass(frozen=True)
class ShowStatus:
    """Show the state of the run to Prometheus and to the service manager."""


@dataclass(frozen=True)
class Record:
    """Append one entry to the record of what was applied, with the contribution's body if the entry has one."""

    entry: AnyEntry
    body: Buffer | None = None


@dataclass(frozen=True)
class SaveCheckpoint:
    """Save a checkpoint. The tensors are those in use, not copies: the next step changes them."""

    version: int
    weights: Tensor
    """(parameters,) float32."""
    optimizer: Mapping[str, Tensor]
    """Everything besides the weights that the next step depends on."""
    state: dict[str, Any]
    """The rest of the learner's state, which must be representable in JSON."""
    score: float | None
    """Mean return of a full window; None or NaN: this checkpoint cannot be the best by its score."""
    under_evaluation: Collection[int] = ()
    """Versions whose checkpoints are kept for now: they may turn out to be the best."""


@dataclass(frozen=True)
class RateCheckpoint:
    """Note the evaluation in the checkpoint of this version, which is the best; this learner has written it.

    If the checkpoint is not on the disk, or not any more, nothing is written.
    """

    version: int
    evaluation: EvaluationStatus


@dataclass(frozen=True)
class ReadBest:
    """Read the best checkpoint, and pass it to `LearnerCore.best_read`."""


@dataclass(frozen=True)
class Log:
    """Write a line for the operator; lines with the same `key` are counted, and printed only once in a while.

    The lines that peers can cause are limited to a few a second in all. `own`: the learner itself caused this one, so
    it is never held back.
    """

    level: Literal["info", "warning", "error"]
    text: str
    key: str = ""
    own: bool = False


@dataclass(frozen=True)
class Finish:
    """End the run; `status` covers the whole of it."""

    ending: Ending
    reason: str
    status: RunStatus


Effect = (
    Send
    | Disconnect
    | Publish
    | WriteMetrics
    | ShowStatus
    | Record
    | SaveCheckpoint
    | RateCheckpoint
    | ReadBest
    | Log
    | Finish
)


def refuse(peer: bytes, code: RefusalCode, reason: str) -> Send:
    return Send(peer, Refused(code=code, reason=reason))


def refuse_stranger(peer: bytes, message: AnyMessage) -> list[Send]:
    """Return the answer to a message from a peer that is not in the run."""
    return [] if isinstance(message, Goodbye) else [refuse(peer, "unknown", "say hello first")]


def refuse_noise(peer: bytes, error: WireError, *, stranger: bool) -> list[Effect]:
    """Return the answer to bytes that are not a message, or to a message of another version of the protocol."""
    if isinstance(error, ProtocolError):
        return [refuse(peer, "protocol", str(error)), Log("warning", f"a peer was refused: {error}", key="protocol")]
    line = Log("warning", f"a peer sent bytes that are no message: {error}", key="malformed")
    return [line, Disconnect(peer)] if stranger else [line]  # a stranger's noise is not worth the time to read it
