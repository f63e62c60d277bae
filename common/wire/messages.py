"""Every message on the wire: one frozen class each. `common.wire.protocol` says who sends which, and when.

A message is a small header; gradients, trajectories, weights, observations and actions travel as a body in a frame of
their own (see `common.wire.frames`). docs/protocol.md is generated from this file.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from common.rl.episode import Episode
from common.settings.exchanges import MAX_LIST_ITEMS
from common.settings.sections import MAX_ACTORS

PROTOCOL = 3
"""Raised by one whenever a header or a body changes its meaning; peers with unequal numbers do not talk."""

MAX_NAME = 128
"""Most characters of a name."""
MAX_TEXT = 4096
"""Most characters of a text for people."""
MAX_EVALUATED = 1000
"""Most episodes of one evaluation."""
MAX_ACTORS_NAMED = 256
"""Most actors named in one report of a launcher or a relay, and in one order to a launcher."""
MAX_STEPS, MAX_FRAMES = 10**9, 10**11
"""Most steps and most emulator frames of one contribution."""
Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
Label = Annotated[str, Meta(max_length=MAX_NAME)]
Text = Annotated[str, Meta(max_length=MAX_TEXT)]
Natural = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Doubles = Annotated[list[float], Meta(max_length=MAX_LIST_ITEMS)]
Seconds = Annotated[float, Meta(gt=0)]
Figure = Annotated[float, Meta(ge=0, le=1e30)]
Actors = Annotated[int, Meta(ge=0, le=MAX_ACTORS)]
Role = Literal["actor", "launcher", "observer", "evaluator", "relay", "operator"]
Verdict = Literal["applied", "stale", "refused", "duplicate"]
RefusalCode = Literal["protocol", "codec", "name", "role", "quarantined", "replaced", "unknown", "relay", "order"]


class Message(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag=str.lower):
    """Base class; on the wire the class name in lower case is the `type`."""


class Hello(Message, frozen=True):
    """Asks to join the run. Repeated until it is answered."""

    protocol: Natural
    role: Role
    name: Name
    incarnation: Name
    """Random for each process, so that a restarted peer is not mistaken for its predecessor."""
    host: Name
    pid: Natural
    versions: Annotated[dict[Name, Label], Meta(max_length=32)] = {}
    """Versions of Python and of the packages that matter."""
    codecs: Annotated[list[Name], Meta(max_length=64)] = []
    """Codecs that the peer has (from actors and relays)."""
    launcher: Label = ""
    """Name of the launcher that started this actor; empty: started by hand."""
    slots: Natural = 0
    """Number of actors that this launcher can run."""


class Welcome(Message, frozen=True):
    """The peer is a member of the run."""

    run: Name
    epoch: Natural
    """How often this run has been started; gradients of an older epoch are refused."""
    heartbeat_seconds: Seconds
    expiry_seconds: Seconds
    a3cd: Label = ""
    """The learner's version of a3cd."""
    settings: dict[str, Any] = {}
    """The run settings, resolved (for actors, evaluators and relays)."""
    codec: Label = ""
    """Codec for the peer's gradients or trajectories."""
    credit: Natural = 0
    """Gradients or trajectories that this peer may have unanswered; 0: no limit."""
    model: Label = ""
    """Hash of the network that both ends build."""
    parameters: Annotated[int, Meta(ge=0, le=2**30)] = 0
    """Number of parameters of the network (for relays, which do not build it)."""
    counted: Annotated[int, Meta(ge=0, le=MAX_LIST_ITEMS)] = 0
    """Numbers whose moments come with each gradient (for relays)."""
    longest_episode: Natural = 0
    """The longest episode, in steps of the agent; 0: not known (for relays)."""
    weights_port: Natural = 0
    weights_format: Label = ""
    """fp32 or fp16: the format of whole weights."""
    version: Natural = 0
    """Version of the weights in the body."""
    actors: Natural = 0
    """Actors in the run now."""
    seed: Natural = 0
    """Seed for this peer's environments and sampling: different for every actor, and for every evaluator."""
    relay: Label = ""
    """Incarnation of the relay that sends this; empty: the learner. A gradient that another relay left unanswered is
    dropped: it may have been applied, which a new relay does not know."""


class Refused(Message, frozen=True):
    """The peer is not, or no longer, a member of the run."""

    code: RefusalCode
    reason: Text


class Contribution(Message, frozen=True):
    """The header that Gradient and Trajectory share; it is not a message itself."""

    run: Name
    epoch: Natural
    sequence: Natural
    """1, 2, ... per incarnation; a number seen before is a duplicate."""
    version: Natural
    """Version of the weights that acted, averaged over the rollout; the lag is counted from it."""
    model: Name
    codec: Name
    steps: Annotated[int, Meta(ge=0, le=MAX_STEPS)]
    """Environment steps in which the agent acted."""
    emulator_frames: Annotated[int, Meta(ge=0, le=MAX_FRAMES)]
    count: Annotated[int, Meta(ge=1, le=4096)] = 1
    """Rollouts in the body."""
    episodes: Annotated[list[Episode], Meta(max_length=MAX_LIST_ITEMS)] = []
    """Finished episodes: return, length in steps, seconds."""
    moments: Annotated[list[tuple[int, Doubles, Doubles]], Meta(max_length=4096)] = []
    """Running statistics of the rollouts, in runs that normalize: count, means, sums of squared deviations."""


class Gradient(Contribution, frozen=True):
    """A gradient, summed over `count` rollouts."""

    statistics: Annotated[dict[Name, float], Meta(max_length=64)] = {}
    """Figures of the loss: policy_loss, value_loss, entropy, gradient_norm, ratio, kl, explained_variance,
    clip_fraction."""
    summed: bool = False
    """It is a relay's: the sum of gradients that had been packed before."""
    players: Annotated[list[Natural], Meta(max_length=MAX_LIST_ITEMS)] = []
    """From a relay: for each of the episodes, the number of the actor that played it."""


class Trajectory(Contribution, frozen=True):
    """Rollouts from which the learner computes the gradient."""


class Acknowledgement(Message, frozen=True):
    """The verdict on one gradient or trajectory."""

    sequence: Natural
    verdict: Verdict
    version: Natural
    """Version of the newest weights."""
    credit: Natural
    actors: Natural
    why: Text = ""


class Pull(Message, frozen=True):
    """Asks for weights newer than `version`."""

    version: Natural
    """Where deltas are sent, that of the whole weights that the actor has: it may lack those of newer deltas."""
    whole: bool = False
    """The actor has no weights of this epoch; `version` means nothing."""


class Weights(Message, frozen=True):
    """The newest weights."""

    version: Natural
    epoch: Natural
    delta: bool = False
    """The body is a difference to a keyframe, as in a broadcast (exchange.weights = "delta")."""


class Evaluation(Message, frozen=True):
    """Whole episodes that an evaluator has played with the weights it was given last."""

    run: Name
    epoch: Natural
    version: Natural
    """Version of these weights."""
    episodes: Annotated[list[Episode], Meta(max_length=MAX_EVALUATED)]
    """As many as evaluation.episodes says: return, length in steps, seconds (0)."""


class Observe(Message, frozen=True):
    """The observations of one group of environments; asks for actions."""

    run: Name
    epoch: Natural
    group: Annotated[int, Meta(ge=0, le=255)]
    """Number of the group among the actor's groups, from 0."""
    step: Natural
    """1, 2, ... for each group of an incarnation; a number seen before gets the same answer again."""
    begins: bool = False
    """A new rollout begins: the learner drops the group's rollout so far, and the body has no rewards and flags."""
    steps: Annotated[int, Meta(ge=0, le=1024)] = 0
    """Environment steps in which the agent acted, in the last step."""
    emulator_frames: Annotated[int, Meta(ge=0, le=10**8)] = 0
    episodes: Annotated[list[Episode], Meta(max_length=MAX_LIST_ITEMS)] = []
    """Episodes that ended in the last step: return, length in steps, seconds."""


class Act(Message, frozen=True):
    """Actions for one group of environments."""

    group: Natural
    step: Natural
    """The step of the `observe` that this answers."""


class FleetOrder(Message, frozen=True):
    """The number of actors that the launcher is to run."""

    actors: Natural
    why: Text
    silent: Annotated[dict[Name, Annotated[float, Meta(ge=0)]], Meta(max_length=MAX_ACTORS_NAMED)] = {}
    """Actors of this launcher that hang, and for how many seconds they have been silent: each is to be replaced."""


class FleetReport(Message, frozen=True):
    """The actors that the launcher runs."""

    slots: Natural
    running: Natural
    starting: Natural
    failed: Natural
    """Actors that ended without being told to, since the launcher started."""
    gave_up: bool = False
    """No actor can run; `why` says why."""
    exit_code: Natural = 0
    """Exit code of the actor that made the launcher give up."""
    retry_seconds: Natural = 0
    """Seconds until a launcher that gave up starts one actor again."""
    why: Text = ""
    names: Annotated[list[Name], Meta(max_length=MAX_ACTORS_NAMED)] = []
    """Names of the actors that run, without the names of keys; an actor that never joins the run hangs."""
    restarts: Annotated[dict[Name, Natural], Meta(max_length=MAX_ACTORS_NAMED)] = {}
    """How often each actor ended without being told to, since the launcher started; if there are too many, of those
    with the most."""


class SiteReport(Message, frozen=True):
    """The actors that a relay stands for."""

    actors: Actors
    by_hand: Actors = 0
    """Actors among these that no launcher started."""
    stale: Natural = 0
    """Gradients that the relay, since it started, did not take because they were too old."""
    refused: Natural = 0
    """Gradients that the relay could not use."""
    named: Annotated[list[tuple[Natural, Name, Figure]], Meta(max_length=MAX_ACTORS_NAMED)] = []
    """Number, name and frames per second of each actor; if there are too many, of those that joined first."""


class Heartbeat(Message, frozen=True):
    """Sign of life, sent from the working loop."""

    state: Annotated[str, Meta(max_length=64)] = ""
    """What the peer is doing now."""
    last_error: Text = ""
    """The last error that the peer recovered from, such as an environment that raised."""
    processor: Annotated[float, Meta(ge=0, le=1)] = 0.0
    """Fraction of its host's processor time that is used."""
    memory: Natural = 0
    """Bytes of its host's memory in use."""
    memory_total: Natural = 0
    """Bytes of its host's memory; 0: this, `memory` and `processor` are not known."""


class Inspect(Message, frozen=True):
    """Asks for the state of the run."""


class Status(Message, frozen=True):
    """The state of the run."""

    report: dict[str, Any]
    """docs/operating.md names the keys."""


class Halt(Message, frozen=True):
    """Ends the learner after a checkpoint, as SIGTERM does: the run can be resumed."""


class Save(Message, frozen=True):
    """Asks for a checkpoint of the weights as they are."""


class Saved(Message, frozen=True):
    """What became of the checkpoint that an operator waits for."""

    version: Natural
    path: Text = ""
    """Where it is on the learner's host."""
    error: Text = ""
    """Why the checkpoint is not on the disk; empty: it is."""


class Scale(Message, frozen=True):
    """Sets bounds on the number of actors for this run, in place of those in its settings."""

    minimum: Actors
    maximum: Actors
    """Not below `minimum`. If it is equal, exactly this many actors are wanted, whatever scaling.policy says."""


class Scaled(Message, frozen=True):
    """The bounds that are in force."""

    minimum: Actors
    maximum: Actors
    wanted: Natural
    """Actors that the learner wants now."""
    room: Natural
    """Actors that the launchers can run."""


class Stop(Message, frozen=True):
    """The learner stops. `final`: the run is over; otherwise peers wait for the learner to come back."""

    reason: Text
    final: bool


class Goodbye(Message, frozen=True):
    """The peer leaves the run."""

    reason: Text


AnyMessage = (
    Hello | Welcome | Refused | Gradient | Trajectory | Acknowledgement | Pull | Weights | Evaluation | Observe | Act
    | FleetOrder | FleetReport | SiteReport | Heartbeat | Inspect | Status | Halt | Save | Saved | Scale | Scaled | Stop
    | Goodbye
)  # fmt: skip
