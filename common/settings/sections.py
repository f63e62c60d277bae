"""The run settings: one frozen class per TOML section, each value with its unit and its allowed range.

`auto` values are resolved by the learner once it has seen the environment; the run folder keeps the resolved file.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Positive = Annotated[float, Meta(gt=0)]
NonNegative = Annotated[float, Meta(ge=0)]
Fraction = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=1)]
Amount = Annotated[int, Meta(ge=0)]
Scalar = bool | int | float | str

NETWORKS = ("auto", "dense", "conv-a3c", "conv-students", "conv-nature", "conv-impala")


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A TOML section: immutable, and an unknown key is an error."""


class Environment(Section, frozen=True):
    """What the actors play."""

    id: Annotated[str, Meta(min_length=1)] = "CartPole-v1"
    """Gymnasium id; `module:Id-v0` imports that module first."""
    num_envs: Annotated[int, Meta(ge=1, le=1024)] = 16
    """Environments per actor, stepped as one batch."""
    observation: Literal["auto", "state", "frames"] = "auto"
    """`frames`: rendered pictures, grey, 84x84, stacked (ALE games always are). `auto`: what the environment gives."""
    frame_skip: Amount = 0
    """Times each action is repeated, rewards summed; 0: 4 for ALE games, else 1."""
    frame_stack: Amount = 0
    """Frames stacked into one observation; 0: 4 for frames, else 1."""
    max_episode_steps: Amount = 0
    """Time limit in agent steps; 0: as the environment says."""
    step_seconds: NonNegative = 0.0
    """Makes each step of the batch last at least this long (pacing; 0: as fast as it goes)."""
    reward_scale: Positive = 1.0
    """Rewards are multiplied by this for learning; reported returns are not."""
    reward_clip: NonNegative = 0.0
    """Rewards are clipped to +-this for learning, after scaling; 0: not clipped."""
    reward_normalize: bool = False
    """Rewards are divided by the running deviation of their discounted sum, over all actors, before reward_scale."""
    action_bounds: Literal["clip", "tanh"] = "clip"
    """How what is drawn comes into the bounds of a Box of actions: cut off there, or as its tanh."""
    terminal_on_life_loss: bool = False
    """For learning, nothing follows the loss of a life; episodes are whole games all the same (ALE games only)."""
    options: dict[str, Scalar] = msgspec.field(default_factory=dict)
    """Keyword arguments for the environment."""


class Network(Section, frozen=True):
    """The policy and the value."""

    kind: Annotated[
        str,
        Meta(
            pattern=rf"^({'|'.join(NETWORKS)}|[A-Za-z_][\w.]*:[A-Za-z_]\w*)$",
            description=f"one of {', '.join(NETWORKS)}, or module:Class",
        ),
    ] = "auto"
    """`auto`: dense for vectors, conv-a3c for pictures. conv-nature, conv-impala: larger conv networks, of Mnih et al.
    2015 and Espeholt et al. 2018. conv-students: conv-nature with 128 dense units. `module:Class`: a network of one's
    own (docs/networks.md)."""
    hidden: Annotated[list[Annotated[int, Meta(ge=1, le=8192)]], Meta(min_length=1, max_length=16)] = msgspec.field(
        default_factory=lambda: [128]
    )
    """Units of the dense layers (dense only)."""
    activation: Literal["relu", "tanh"] = "tanh"
    """Between dense layers (dense only)."""
    input_scale: Positive = 1.0
    """Box observations are multiplied by this before the first layer (dense only): larger where small
    differences between small numbers matter."""
    normalize: bool = False
    """Observations (box only) less their running mean, divided by their running deviation, over all actors; then within
    +-10."""
    log_std: Literal["parameter", "state"] = "parameter"
    """Standard deviations of a Box of actions: one learnt number each whatever the state, or by softplus of outputs."""
    shared: bool = True
    """Policy and value share the trunk; else each has its own. (A module:Class settles that itself.)"""
    lstm: Annotated[int, Meta(ge=0, le=4096)] = 0
    """Units of an LSTM after the trunk, for what one observation does not show; 0: none. Needs shared = true."""


class Algorithm(Section, frozen=True):
    """How a rollout becomes a gradient."""

    kind: Literal["a3c", "one-step-q", "n-step-q", "one-step-sarsa", "a2c", "vtrace", "ppo"] = "a3c"
    """What each does and what it sends: docs/algorithms.md. one-step-q, n-step-q and one-step-sarsa learn values of
    discrete actions: the settings of policies, from gae_lambda to entropy and value, normalize_advantages, correction,
    rho_clip and c_clip, say nothing to them."""
    rollout_length: Annotated[int, Meta(ge=1, le=4096)] = 20
    """Steps per environment in one gradient (t_max)."""
    whole_episodes: bool = False
    """One gradient per whole episode instead, as in the original experiment; needs copies = 1."""
    gamma: Fraction = 0.99
    gae_lambda: Fraction = 1.0
    """Generalised advantage estimation; 1: plain n-step advantages."""
    entropy_coef: NonNegative = 0.01
    """Coefficient of the entropy bonus."""
    value_coef: NonNegative = 0.5
    """Coefficient of the squared value error."""
    max_grad_norm: NonNegative = 0.5
    """Largest L2 norm of one gradient, a mean over the rollout's steps (A3C's 40 is of their sum); 0: not clipped."""
    normalize_advantages: bool = False
    """Advantages of a rollout to mean 0 and spread 1 before the policy loss."""
    refresh: bool = True
    """Load the newest weights as they come: before the gradient and, with correction, while a rollout is played."""
    correction: Literal["vtrace", "none"] = "vtrace"
    """Importance correction between the policy that acted and the one that learns (a3c; a2c has none, vtrace has)."""
    rho_clip: Positive = 1.0
    c_clip: Positive = 1.0
    clip_range: Positive = 0.2
    """The ratio of the probabilities under the new and the old policy counts up to 1 +- this (ppo only)."""
    epochs: Annotated[int, Meta(ge=1, le=256)] = 4
    """Times each rollout is gone over (ppo only)."""
    minibatches: Annotated[int, Meta(ge=1, le=1024)] = 4
    """Parts of a batch with an optimizer step each, of whole environments, so at most as many as there are (ppo, in the
    learner only)."""
    target_kl: NonNegative = 0.0
    """A batch is left for the next one once its policy has gone so far from the one that acted, in nats; 0: never
    (ppo only)."""
    epsilon_finals: Annotated[list[Fraction], Meta(min_length=1, max_length=16)] = msgspec.field(
        default_factory=lambda: [0.1, 0.01, 0.5]
    )
    """Each environment of each actor explores with one of these probabilities in the end (values only)."""
    epsilon_probabilities: Annotated[list[Fraction], Meta(min_length=1, max_length=16)] = msgspec.field(
        default_factory=lambda: [0.4, 0.3, 0.3]
    )
    """How probable each of epsilon_finals is; their sum is 1 (values only)."""
    epsilon_frames: Amount = 4_000_000
    """Frames of the run, all actors together, over which exploration falls from 1 (values only)."""
    target_frames: Count = 40_000
    """Frames of the run between two copies of the weights to the target network (values only)."""


class Optimizer(Section, frozen=True):
    """One step of the flat parameter vector in the learner."""

    kind: Literal["adam", "rmsprop", "sgd"] = "adam"
    """rmsprop is A3C's form: eps inside the root, statistics shared by all actors."""
    learning_rate: Positive = 1e-3
    anneal: Literal["constant", "linear"] = "constant"
    """linear: to 0 at limits.frames."""
    beta1: Annotated[float, Meta(ge=0, lt=1)] = 0.9
    beta2: Annotated[float, Meta(ge=0, lt=1)] = 0.999
    decay: Annotated[float, Meta(ge=0, lt=1)] = 0.99
    """RMSProp's alpha."""
    momentum: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    """SGD's momentum."""
    epsilon: Positive = 1e-5
    """Beside the root (adam) or in it (rmsprop): there 1e-10 is what 1e-5 is beside it."""
    device: Annotated[str, Meta(pattern=r"^(cpu|cuda(:\d+)?|auto)$")] = "cpu"
    """Where the learner keeps weights and optimizer: cpu, cuda, cuda:N, or auto (cuda where there is one)."""


class Exchange(Section, frozen=True):
    """What travels between actors and learner, and how much of it may be under way."""

    kind: Literal["auto", "gradients", "trajectories", "actions"] = "auto"
    """gradients: actors compute them. trajectories: actors send what they played, and the learner computes. actions:
    actors hold environments only; the learner answers their observations with actions, and computes. auto: as is usual
    with the algorithm; a3c goes over from gradients to trajectories where it measures that they are faster."""
    codec: Literal["auto", "none", "fp16", "bf16", "int8", "top-k", "sign", "ternary"] = "auto"
    """How gradients are packed; auto chooses among the first four, by the link and the size of the model."""
    top_k: Annotated[float, Meta(gt=0, le=0.25)] = 0.01
    """Fraction of the elements that codec = top-k sends, the largest ones."""
    entropy_coder: Literal["auto", "none", "lz4", "zstd"] = "auto"
    error_feedback: bool | Literal["auto"] = "auto"
    """Actors carry what packing lost over to the next gradient; auto: with top-k, sign and ternary."""
    weights: Literal["auto", "fp32", "fp16", "delta"] = "auto"
    """Format of the weights on the wire; auto: fp32 up to 1 MiB, then fp16. delta: broadcasts hold the difference to a
    keyframe, which is sent as with auto, in int8; about half the bytes of fp16."""
    credit: Amount = 1
    """Gradients one actor may have unanswered; 0: no limit (this is what collapses; for experiments)."""
    accumulate: Annotated[int, Meta(ge=1, le=64)] = 4
    """Gradients an actor without credit adds up before it waits."""
    coalesce: Annotated[int, Meta(ge=1, le=256)] = 16
    """Most gradients added into one optimizer step; the number used is clamp(actors / 5, 1, this)."""
    drain_ms: Positive = 5.0
    """Longest time the learner reads gradients before it takes a step."""
    broadcast_ms: Positive = 5.0
    """Shortest time between two broadcasts of weights."""
    egress_mbit: Positive = 800.0
    """Budget for broadcasts, all subscribers together, in Mbit/s."""
    link_mbit: NonNegative = 0.0
    """The slowest link between actors and learner in Mbit/s, for codec = auto; 0: not known."""
    heartbeat_seconds: Positive = 2.0
    expiry_seconds: Positive = 30.0
    """A peer that is silent for so long is taken for gone."""
    groups: Annotated[int, Meta(ge=1, le=8)] = 2
    """An actor's copies are split into so many groups: while one waits for its actions, another steps (actions
    only)."""
    batch: Count = 1024
    """Observations that wait at most before the learner computes their actions in one pass (actions only)."""
    batch_wait_ms: NonNegative = 0.0
    """Longest time an observation waits for others; 0: those that have come are taken together (actions only)."""
    learner_delay_ms: NonNegative = 0.0
    """Makes each optimizer step last at least so long (experiments on overload)."""


class Staleness(Section, frozen=True):
    """What becomes of a gradient of older weights (lag: optimizer steps since those that acted).

    none                 scale = "none", refuse_factor = 0
    1/sqrt(1+lag)        as it is
    1/(1+lag)            scale = "inverse"
    drop                 scale = "none", drop_above = N
    delay compensation   policy = "compensate", with algorithm.refresh = false and exchange.accumulate = 1
    V-trace refresh      algorithm.refresh and algorithm.correction, both on as it is: actors do it, beside the others
    synchronous          policy = "synchronous"
    """

    policy: Literal["scale", "compensate", "synchronous"] = "scale"
    """scale: the step shrinks with the lag. compensate: the gradient is brought to the newest weights, to first order.
    synchronous: the learner waits for actors, takes one step with the mean of their gradients, and answers them all;
    an actor waits for its answer, and what is not of the newest version is refused."""
    scale: Literal["inverse-sqrt", "inverse", "none"] = "inverse-sqrt"
    """The step is multiplied by 1/sqrt(1+lag), 1/(1+lag), or not (policy scale only)."""
    refuse_factor: NonNegative = 4.0
    """A lag above this times the number of actors, and above 4, is refused; 0: never."""
    drop_above: Amount | None = None
    """A lag above this is refused, however many actors there are; not set: refuse_factor decides alone."""
    compensation: Positive = 0.04
    """The lambda of delay compensation (policy compensate only)."""
    history_mib: Count = 256
    """Memory for the weights of earlier versions; a gradient of one no longer kept is refused (compensate only)."""
    share: Annotated[float, Meta(gt=0, le=1)] = 1.0
    """Of the actors in the run, so many must have sent a gradient before the step (synchronous only)."""
    wait_seconds: Positive = 10.0
    """After the first gradient, so long for the others; then the step is taken without them (synchronous only)."""


class Scaling(Section, frozen=True):
    """How many actors the learner wants."""

    policy: Literal["fixed", "episode-duration", "load"] = "fixed"
    minimum: Annotated[int, Meta(ge=0, le=4096)] = 2
    """Actors from the start; with policy fixed, all there will be."""
    maximum: Annotated[int, Meta(ge=1, le=4096)] = 2
    form: Literal["steps", "linear"] = "steps"
    """episode-duration: `steps`: the thresholds and additions below; `linear`: first_seconds and every_seconds."""
    thresholds_seconds: list[Positive] = msgspec.field(default_factory=lambda: [20.0, 40.0, 60.0])
    additions: list[Count] = msgspec.field(default_factory=lambda: [1, 2, 3])
    first_seconds: Positive = 20.0
    every_seconds: Positive = 10.0
    episodes_between: Amount = 1000
    """At least so many episodes between two additions."""
    busy_limit: Annotated[float, Meta(gt=0, le=1)] = 0.8
    """load, and the guard under every policy: the learner's busy fraction above which no actor is added."""
    interval_seconds: Positive = 5.0
    """Between two decisions."""


class Checkpoint(Section, frozen=True):
    """What is kept of the run."""

    every_seconds: NonNegative = 60.0
    """Between two; 0: only at the end, a new best included."""
    keep: Count = 3
    """The last so many; the best is kept besides."""
    best: bool = True
    """Keep the best besides, and save a new best without waiting for every_seconds."""


class Limits(Section, frozen=True):
    """When the run is over; 0: no such limit. The first that is reached ends it."""

    frames: Amount = 0
    episodes: Amount = 0
    seconds: NonNegative = 0.0
    until_return: float | None = None
    """Mean training return over `window` episodes at which the run has reached its goal."""
    window: Annotated[int, Meta(ge=1, le=100_000)] = 100


class Settings(Section, frozen=True):
    """A whole run."""

    seed: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    environment: Environment = Environment()
    network: Network = Network()
    algorithm: Algorithm = Algorithm()
    optimizer: Optimizer = Optimizer()
    exchange: Exchange = Exchange()
    staleness: Staleness = Staleness()
    scaling: Scaling = Scaling()
    checkpoint: Checkpoint = Checkpoint()
    limits: Limits = Limits()
