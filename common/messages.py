"""Every message on the wire: one frozen class each, and nothing else.

A message is a small header; a gradient or weights travel as a body in a frame of their own (see `common.wire`).
docs/protocol.md shows this file as a table, and a test holds the two together.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

PROTOCOL = 1
"""Raised by one whenever a header or a body changes its meaning; peers with unequal numbers do not talk."""

Name = Annotated[str, Meta(min_length=1, max_length=128)]
Text = Annotated[str, Meta(max_length=4096)]
Natural = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Role = Literal["actor", "launcher", "observer"]
Verdict = Literal["applied", "stale", "refused", "duplicate"]
RefusalCode = Literal["protocol", "unknown", "set-aside", "role", "codec"]


class Message(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag=str.lower):
    """Base of all; on the wire the class name in lower case is the `type`."""


class Hello(Message, frozen=True):
    """actor, launcher, observer -> learner: who I am. Sent again until it is answered."""

    protocol: Natural
    role: Role
    name: Name
    incarnation: Name
    """Fresh for each process, so that a restarted peer is not mistaken for its predecessor."""
    host: Name
    pid: Natural
    versions: dict[str, str] = {}
    codecs: list[str] = []
    """Codec names the peer can speak (actors)."""
    launcher: Annotated[str, Meta(max_length=128)] = ""
    """Name of the launcher that started this actor; empty: started by hand."""
    slots: Natural = 0
    """Most actors this launcher can run."""


class Welcome(Message, frozen=True):
    """learner -> peer: you are in. For an actor the body is a snapshot of the weights."""

    run: Name
    epoch: Natural
    """How often this run has been started; gradients of an older epoch are refused."""
    heartbeat_seconds: float
    expiry_seconds: float
    settings: dict[str, Any] = {}
    """The run settings, resolved (actors)."""
    codec: str = ""
    credit: Natural = 0
    """Gradients this actor may have unanswered; 0: no limit."""
    model: str = ""
    """Hash of the network both ends must build."""
    weights_port: Natural = 0
    weights_format: str = ""
    version: Natural = 0
    actors: Natural = 0
    """Actors in the run now."""
    seed: Natural = 0
    """Seed for this actor's environments and sampling, different for every actor."""


class Refused(Message, frozen=True):
    """learner -> peer: not you, or not any more. `unknown` means: say hello again; all else is for good."""

    code: RefusalCode
    reason: Text


class Gradient(Message, frozen=True):
    """actor -> learner; body: the packed flat gradient, summed over `count` rollouts."""

    run: Name
    epoch: Natural
    sequence: Natural
    """1, 2, ... per incarnation; a number seen before is a duplicate."""
    version: Natural
    """Oldest weights that went into it."""
    model: str
    codec: str
    steps: Annotated[int, Meta(ge=0, le=10**9)]
    """Environment steps the agent acted on."""
    emulator_frames: Annotated[int, Meta(ge=0, le=10**11)]
    count: Annotated[int, Meta(ge=1, le=4096)] = 1
    episodes: list[tuple[float, int, float]] = []
    """Finished episodes: return, length in steps, seconds."""
    statistics: dict[str, float] = {}
    """Of the loss: policy_loss, value_loss, entropy, gradient_norm, ratio."""


class Acknowledgement(Message, frozen=True):
    """learner -> actor: what became of a gradient."""

    sequence: Natural
    verdict: Verdict
    version: Natural
    """Newest weights there are."""
    credit: Natural
    actors: Natural
    why: Text = ""


class Pull(Message, frozen=True):
    """actor -> learner: send me weights newer than this."""

    version: Natural


class Weights(Message, frozen=True):
    """learner -> actor: body: the newest weights; without a body: yours are the newest."""

    version: Natural
    epoch: Natural


class FleetOrder(Message, frozen=True):
    """learner -> launcher: run so many actors."""

    actors: Natural
    why: Text


class FleetReport(Message, frozen=True):
    """launcher -> learner: what I run."""

    slots: Natural
    running: Natural
    starting: Natural
    failed: Natural
    """Actors that ended without being told to, since the launcher started."""
    gave_up: bool = False
    """Starting is hopeless: `why` says why."""
    exit_code: Natural = 0
    """Of the actor that made the launcher give up."""
    why: Text = ""


class Heartbeat(Message, frozen=True):
    """both ways, sent from the working loop: I am alive, and this is what I do."""

    state: Annotated[str, Meta(max_length=64)] = ""
    trouble: Text = ""
    """The last thing that went wrong and was survived (an environment that raised, say)."""


class Inspect(Message, frozen=True):
    """observer -> learner: how is it going?"""


class Status(Message, frozen=True):
    """learner -> observer: everything there is to see (docs/operating.md names the keys)."""

    report: dict[str, Any]


class Stop(Message, frozen=True):
    """learner -> all: the run is over, or paused; actors wait for a paused run to come back."""

    reason: Text
    final: bool


class Goodbye(Message, frozen=True):
    """peer -> learner: I am leaving."""

    reason: Text


AnyMessage = (
    Hello | Welcome | Refused | Gradient | Acknowledgement | Pull | Weights | FleetOrder | FleetReport
    | Heartbeat | Inspect | Status | Stop | Goodbye
)  # fmt: skip
