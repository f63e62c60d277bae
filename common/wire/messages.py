"""Every message on the wire: one frozen class each, and nothing else.

A message is a small header; a gradient or weights travel as a body in a frame of their own (see `common.wire.frames`).
docs/protocol.md shows this file as a table, and a test holds the two together.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from common.rl.episode import Episode

PROTOCOL = 1
"""Raised by one whenever a header or a body changes its meaning; peers with unequal numbers do not talk."""

MAX_NAME, MAX_TEXT = 128, 4096
"""Characters."""
Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
Label = Annotated[str, Meta(max_length=MAX_NAME)]
Text = Annotated[str, Meta(max_length=MAX_TEXT)]
Natural = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Seconds = Annotated[float, Meta(gt=0)]
Duration = Annotated[float, Meta(ge=0, le=1e6)]
"""Seconds that something took."""
Size = Annotated[int, Meta(ge=0, le=2**40)]
"""Bytes."""
Role = Literal["actor", "launcher", "observer"]
Verdict = Literal["applied", "stale", "refused", "duplicate"]
RefusalCode = Literal["protocol", "unknown", "set-aside", "role", "codec", "name"]


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
    versions: Annotated[dict[Name, Label], Meta(max_length=32)] = {}
    codecs: Annotated[list[Name], Meta(max_length=64)] = []
    """Codec names the peer can speak (actors)."""
    launcher: Label = ""
    """Name of the launcher that started this actor; empty: started by hand."""
    slots: Natural = 0
    """Most actors this launcher can run."""


class Welcome(Message, frozen=True):
    """learner -> peer: you are in. Body: for an actor, a snapshot of the weights, unless the learner acts for it."""

    run: Name
    epoch: Natural
    """How often this run has been started; gradients of an older epoch are refused."""
    heartbeat_seconds: Seconds
    expiry_seconds: Seconds
    settings: dict[str, Any] = {}
    """The run settings, resolved (actors)."""
    codec: Label = ""
    credit: Natural = 0
    """Gradients or trajectories this actor may have unanswered; 0: no limit."""
    model: Label = ""
    """Hash of the network both ends must build."""
    weights_port: Natural = 0
    weights_format: Label = ""
    version: Natural = 0
    actors: Natural = 0
    """Actors in the run now."""
    seed: Natural = 0
    """Seed for this actor's environments and sampling, different for every actor."""
    trial: Label = ""
    """Codec that trajectories would have: time the first rollouts with it as well, and tell (exchange.kind = "auto").
    Empty: nothing is to be timed."""


class Refused(Message, frozen=True):
    """learner -> peer: not you, or not any more. `unknown` means: say hello again; all else is for good."""

    code: RefusalCode
    reason: Text


class Contribution(Message, frozen=True):
    """What goes into a step of the learner, whatever its body is; only its kinds below are on the wire."""

    run: Name
    epoch: Natural
    sequence: Natural
    """1, 2, ... per incarnation; a number seen before is a duplicate."""
    version: Natural
    """Weights that played for it, on average; its lag is counted from them."""
    model: Name
    codec: Name
    steps: Annotated[int, Meta(ge=0, le=10**9)]
    """Environment steps the agent acted on."""
    emulator_frames: Annotated[int, Meta(ge=0, le=10**11)]
    count: Annotated[int, Meta(ge=1, le=4096)] = 1
    """Rollouts it is of."""
    episodes: list[Episode] = []
    """Finished episodes: return, length in steps, seconds."""
    moments: list[tuple[int, list[float], list[float]]] = []
    """Of what its rollouts' steps saw, in runs that normalise: count, means, sums of squared deviations."""


class Gradient(Contribution, frozen=True):
    """actor -> learner: what I learnt. Body: the packed flat gradient, summed over `count` rollouts."""

    statistics: Annotated[dict[Name, float], Meta(max_length=64)] = {}
    """Of the loss: policy_loss, value_loss, entropy, gradient_norm, ratio, kl."""


class Trajectory(Contribution, frozen=True):
    """actor -> learner: what I played, for the learner to learn from. Body: `count` packed rollouts."""


class Trial(Message, frozen=True):
    """actor -> learner: what my first rollouts took, as gradients and as trajectories. Once, if the welcome asks."""

    play: Duration
    """Seconds of playing one rollout."""
    play_cpu: Duration
    """CPU seconds of the same."""
    gradient: Duration
    """Seconds of its gradient."""
    gradient_packing: Duration
    trajectory_packing: Duration
    gradient_bytes: Size
    """As packed."""
    trajectory_bytes: Size
    round_trip: Duration = 0.0
    """From a gradient to its acknowledgement, packing included."""
    latency: Duration = 0.0
    """From a heartbeat to its answer."""


class Acknowledgement(Message, frozen=True):
    """learner -> actor: what became of a gradient or trajectory."""

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
    """learner -> actor: the newest weights. Body: the weights; none where the actor has them already."""

    version: Natural
    epoch: Natural
    delta: bool = False
    """The body is what has changed since a keyframe, as in a broadcast (exchange.weights = "delta")."""


class Observe(Message, frozen=True):
    """actor -> learner: what a group of my environments shows; which actions? Body: what the last step gave, and the
    observations."""

    run: Name
    epoch: Natural
    group: Annotated[int, Meta(ge=0, le=255)]
    """Of the actor's groups, counted from 0."""
    step: Natural
    """1, 2, ... for each group of an incarnation; a number seen before is answered as it was."""
    begins: bool = False
    """The learner is to know nothing of this group from before; no last step is told of."""
    steps: Annotated[int, Meta(ge=0, le=1024)] = 0
    """Environment steps the agent acted on, in the last step."""
    emulator_frames: Annotated[int, Meta(ge=0, le=10**8)] = 0
    episodes: list[Episode] = []
    """Episodes that the last step ended: return, length in steps, seconds."""


class Act(Message, frozen=True):
    """learner -> actor: take these actions. Body: one for each environment of the group."""

    group: Natural
    step: Natural
    """Of the observations that they answer."""


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
    """both ways: I am alive, and this is what I do. Sent from the working loop."""

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
    Hello | Welcome | Refused | Gradient | Trajectory | Trial | Acknowledgement | Pull | Weights | Observe | Act
    | FleetOrder | FleetReport | Heartbeat | Inspect | Status | Stop | Goodbye
)  # fmt: skip
