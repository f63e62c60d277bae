"""The run settings: one frozen class per TOML section. The run folder keeps them with `auto` resolved."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Positive = Annotated[float, Meta(gt=0)]
NonNegative = Annotated[float, Meta(ge=0)]
Fraction = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=1)]
Amount = Annotated[int, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, lt=1)]
Scalar = bool | int | float | str
Fractions = Annotated[list[Fraction], Meta(min_length=1, max_length=16)]
Named = Annotated[str, Meta(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*\Z", description="module:Class")]
Widths = Annotated[list[Annotated[int, Meta(ge=1, le=8192)]], Meta(min_length=1, max_length=16)]

MAX_ACTORS = 4096
"""Most actors that a setting or an operator may ask for."""
NETWORKS = ("auto", "dense", "conv-a3c", "conv-students", "conv-nature", "conv-impala")


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A TOML section; an unknown key is an error."""


class Environment(Section, frozen=True):
    """The environments of the actors."""

    id: Annotated[str, Meta(min_length=1)] = "CartPole-v1"
    """Gymnasium id; `module:Id-v0` imports that module first, `module:Class` is a class in it (or `file.py:Class`)."""
    num_envs: Annotated[int, Meta(ge=1, le=1024)] = 16
    """Environments per actor, stepped as one batch."""
    observation: Literal["auto", "state", "frames"] = "auto"
    """`frames`: rendered pictures, grey, square, stacked (always so for ALE games). `auto`: the environment's own."""
    frame_size: Annotated[int, Meta(ge=20, le=512)] = 84
    """Pixels along each side of a frame (frames only). With half as many a conv network takes a quarter of the time."""
    crop_top: Share = 0.0
    """Share of a picture's height that is cut off at the top before it is shrunk (frames only): scores, for example."""
    crop_bottom: Share = 0.0
    """As crop_top, at the bottom."""
    frame_skip: Amount = 0
    """Times each action is repeated, rewards summed; 0: 4 for ALE games, else 1."""
    frame_stack: Amount = 0
    """Frames stacked into one observation; 0: 4 for frames, else 1."""
    max_episode_steps: Amount = 0
    """Time limit in agent steps; 0: as the environment says."""
    step_seconds: NonNegative = 0.0
    """Least duration of a step of the batch (pacing; 0: as fast as possible)."""
    reward_scale: Positive = 1.0
    """Rewards are multiplied by this for learning, not in reported returns."""
    reward_clip: NonNegative = 0.0
    """Rewards are clipped to +-this for learning, after scaling; 0: not clipped."""
    reward_normalize: bool = False
    """Rewards are divided by the running deviation of their discounted sum, over all actors, before reward_scale."""
    action_bounds: Literal["clip", "tanh"] = "clip"
    """How sampled actions are mapped into a Box's bounds: clipped, or squashed by tanh."""
    action_masks: bool = False
    """Actions that `action_mask` in the environment's info forbids are never taken (docs/environments.md)."""
    terminal_on_life_loss: bool = False
    """For learning, the loss of a life is terminal; reported episodes are still whole games (ALE games only)."""
    options: dict[str, Scalar] = msgspec.field(default_factory=dict)
    """Keyword arguments for the environment."""
    wrappers: list[Named] = msgspec.field(default_factory=list)
    """Classes of gymnasium wrappers, each `module:Class` or `file.py:Class`, to put around it in this order."""
    wrapper_options: dict[str, dict[str, Scalar]] = msgspec.field(default_factory=dict)
    """Keyword arguments for the wrappers: a table for each, with the name of its class."""


class Network(Section, frozen=True):
    """The network of policy and value."""

    kind: Annotated[
        str,
        Meta(
            pattern=rf"^({'|'.join(NETWORKS)}|[A-Za-z_][\w.]*:[A-Za-z_]\w*)\Z",
            description=f"one of {', '.join(NETWORKS)}, or module:Class",
        ),
    ] = "auto"
    """`auto`: dense for vectors, conv-a3c for pictures. Larger: conv-nature (Mnih et al. 2015), conv-impala (Espeholt
    et al. 2018). conv-students: conv-nature with 128 dense units. module:Class: your own (docs/networks.md)."""
    hidden: Widths = msgspec.field(default_factory=lambda: [128])
    """Units of the dense layers (dense only)."""
    activation: Literal["relu", "tanh"] = "tanh"
    """Activation after each dense layer (dense only)."""
    input_scale: Positive = 1.0
    """Box observations are multiplied by this before the first layer (dense only)."""
    normalize: bool = False
    """Observations get mean 0 and deviation 1. Numbers (Box): by their running statistics over all actors, clipped to
    +-10. Pictures before a conv network: the mean picture of random play is subtracted, and what is left is divided by
    its deviation, instead of by 255."""
    log_std: Literal["parameter", "state"] = "parameter"
    """Standard deviations of Box actions: one learnt parameter each, or softplus of the network's outputs."""
    shared: bool = True
    """Policy and value share the trunk; false: each has its own. (A module:Class decides itself.)"""
    lstm: Annotated[int, Meta(ge=0, le=4096)] = 0
    """Units of an LSTM after the trunk, for partial observations; 0: none. Needs shared = true."""


class Algorithm(Section, frozen=True):
    """The loss, and the rollouts it is computed on."""

    kind: Literal["a3c", "one-step-q", "n-step-q", "one-step-sarsa", "a2c", "vtrace", "ppo"] = "a3c"
    """See docs/algorithms.md. one-step-q, n-step-q and one-step-sarsa learn values of discrete actions and ignore
    gae_lambda, entropy_coef, value_coef, normalize_advantages, correction, rho_clip and c_clip."""
    rollout_length: Annotated[int, Meta(ge=1, le=4096)] = 20
    """Steps per environment in one gradient (t_max)."""
    whole_episodes: bool = False
    """One gradient per whole episode instead; needs environment.num_envs = 1."""
    gamma: Fraction = 0.99
    """Discount of the rewards of later steps."""
    gae_lambda: Fraction = 1.0
    """Generalised advantage estimation; 1: plain n-step advantages."""
    entropy_coef: NonNegative = 0.01
    """Coefficient of the entropy bonus."""
    value_coef: NonNegative = 0.5
    """Coefficient of the squared value error."""
    max_grad_norm: NonNegative = 0.5
    """Largest L2 norm of one gradient, a mean over the rollout's steps (A3C's 40 is of their sum); 0: not clipped. An
    actor clips the gradient of each rollout, a learner that of its batch."""
    normalize_advantages: bool = False
    """Standardise the advantages of a rollout before the policy loss."""
    refresh: bool = True
    """Load new weights as they arrive: before the gradient and, with correction, during a rollout."""
    correction: Literal["vtrace", "none"] = "vtrace"
    """Importance correction between the acting policy and the learning one (a3c; a2c never, vtrace always)."""
    rho_clip: Positive = 1.0
    """Largest importance ratio of a step's own error (V-trace)."""
    c_clip: Positive = 1.0
    """Largest importance ratio by which later errors are passed back (V-trace)."""
    clip_range: Positive = 0.2
    """The ratio of the probabilities under the new and the old policy is clipped to 1 +- this (ppo only)."""
    epochs: Annotated[int, Meta(ge=1, le=256)] = 4
    """Passes over each rollout (ppo only)."""
    minibatches: Annotated[int, Meta(ge=1, le=1024)] = 4
    """Parts of a batch, of steps from anywhere in it, with an optimizer step each (ppo with trajectories only)."""
    target_kl: NonNegative = 0.0
    """KL divergence in nats from the acting policy at which a batch is left early; 0: never (ppo with trajectories
    only)."""
    epsilon_finals: Fractions = msgspec.field(default_factory=lambda: [0.1, 0.01, 0.5])
    """Final exploration probabilities, one drawn for each environment (Q-learning and Sarsa only)."""
    epsilon_probabilities: Fractions = msgspec.field(default_factory=lambda: [0.4, 0.3, 0.3])
    """Probability of each of epsilon_finals; their sum is 1."""
    epsilon_frames: Amount = 4_000_000
    """Frames of the run over which exploration falls from 1."""
    target_frames: Count = 40_000
    """Frames of the run between two updates of the target network."""


class Optimizer(Section, frozen=True):
    """The learner's optimizer."""

    kind: Literal["adam", "rmsprop", "sgd"] = "adam"
    """rmsprop is A3C's form: epsilon inside the root, statistics shared by all actors."""
    learning_rate: Positive = 1e-3
    """Length of an optimizer step, before anneal and staleness shorten it."""
    anneal: Literal["constant", "linear"] = "constant"
    """linear: the learning rate falls to 0 at limits.frames."""
    beta1: Share | None = None
    """Adam's momentum. Not set: 0.9, but 0 where gradients of actors are applied as they come: asynchrony by itself
    acts as momentum (Mitliagkas et al. 2016, https://arxiv.org/abs/1605.09774)."""
    beta2: Share = 0.999
    """Decay of Adam's mean of the squared gradients."""
    decay: Share = 0.99
    """RMSProp's alpha."""
    momentum: Share = 0.0
    """SGD's momentum."""
    epsilon: Positive = 1e-5
    """Added outside the root (adam) or inside it (rmsprop, where 1e-10 corresponds to 1e-5 outside)."""
    device: Annotated[
        str,
        Meta(
            pattern=r"^(auto|cpu|cuda|cuda:\d+(,cuda:\d+)*)\Z",
            description="one of auto, cpu, cuda, cuda:N, or several as in cuda:0,cuda:1",
        ),
    ] = "auto"
    """Device of the learner's weights, optimizer and training: cpu, cuda, cuda:N, or auto: one GPU if there is one,
    but not for gradients of a dense network that come from actors. cuda:0,cuda:1: the environments of each batch are
    split between these (not with gradients of actors). Actors compute on the CPU."""
    threads: Annotated[int, Meta(ge=1, le=256)] = 1
    """Threads with which the learner computes on a CPU: more are faster if actors wait for it (a2c, ppo)."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Precision of the network's layers when the learner computes gradients; all else stays float32. bfloat16: for GPUs
    and CPUs that multiply in it."""
    compile: bool = False
    """The learner compiles these layers with torch.compile, which takes a minute at its start; together with
    bfloat16 this helps large networks on a GPU."""
    cuda_graphs: bool = False
    """A learner on one GPU records the computation of a gradient once for each size of batch, and starts it as a whole
    from then on."""


class Exchange(Section, frozen=True):
    """What actors and learner exchange, and how much of it may be unanswered."""

    kind: Literal["auto", "gradients", "trajectories", "actions"] = "auto"
    """gradients: actors compute them. trajectories: actors send rollouts, the learner computes the gradients. actions:
    actors send observations, the learner answers with actions and computes the gradients. auto: the algorithm's usual
    kind; with a3c trajectories, if the learner has a GPU and the network is not dense."""
    codec: Literal["auto", "none", "fp16", "bf16", "int8", "top-k", "sign", "ternary"] = "auto"
    """How gradients are packed; auto chooses among none, fp16, bf16 and int8 by the link and the size of the model."""
    top_k: Annotated[float, Meta(gt=0, le=0.25)] = 0.01
    """Fraction of the elements that codec = top-k sends."""
    entropy_coder: Literal["auto", "none", "lz4", "zstd"] = "auto"
    """Lossless compression of the codec's bytes; auto: as the codec and the link suggest."""
    error_feedback: bool | Literal["auto"] = "auto"
    """Actors add the error of packing to the next gradient; auto: with top-k, sign and ternary."""
    weights: Literal["auto", "fp32", "fp16", "delta"] = "auto"
    """Format of the weights on the wire; auto: fp32 up to 1 MiB, then fp16. delta: broadcasts are int8 differences to
    a keyframe, about half the bytes of fp16; the keyframe is sent as with auto."""
    credit: Amount = 1
    """Gradients that one actor may have unanswered; 0: no limit (collapses under load; for experiments)."""
    accumulate: Annotated[int, Meta(ge=1, le=64)] = 4
    """Gradients that an actor without credit adds up before it waits."""
    robust: Literal["none", "agreement"] = "none"
    """agreement: a gradient counts up to twice the usual length, and an actor whose gradients point against the others'
    is left out and named (gradients of four and more actors only)."""
    coalesce: Annotated[int, Meta(ge=1, le=256)] = 16
    """Most gradients added into one optimizer step; the number used is clamp(actors / 5, 1, this). A learner on a GPU
    takes all rollouts that wait."""
    drain_ms: Positive = 5.0
    """Longest time that the learner reads messages before it looks at what else is due; a step that is not full waits
    for messages that can be read."""
    broadcast_ms: Positive = 5.0
    """Shortest time between two broadcasts of weights."""
    egress_mbit: Positive = 800.0
    """Budget for broadcasts, all subscribers together, in Mbit/s."""
    link_mbit: NonNegative = 0.0
    """The slowest link between actors and learner in Mbit/s, for codec = auto; 0: not known."""
    heartbeat_seconds: Positive = 2.0
    """Longest silence of a peer that has nothing to send."""
    expiry_seconds: Positive = 30.0
    """A peer that is silent for longer is removed."""
    groups: Annotated[int, Meta(ge=1, le=8)] = 2
    """Groups of an actor's environments: while one waits for its actions, another steps (actions only)."""
    batch: Count = 1024
    """Observations at which the learner computes actions without waiting for more (actions only)."""
    batch_wait_ms: NonNegative = 0.0
    """Longest time that an observation waits for others; 0: only until all received are read (actions only)."""


class Staleness(Section, frozen=True):
    """How gradients of older weights are treated (lag: optimizer steps since the weights that acted)."""

    policy: Literal["auto", "scale", "compensate", "synchronous"] = "auto"
    """scale: the step shrinks with the lag. compensate: the gradient is corrected to the newest weights, to first order
    (needs algorithm.refresh = false, exchange.accumulate = 1). synchronous: the learner waits for all actors, takes one
    step with the mean of their gradients, and answers them; gradients of older versions are refused. auto: synchronous
    with a2c and with ppo (which can be nothing else), else scale."""
    scale: Literal["inverse-sqrt", "inverse", "none"] = "inverse-sqrt"
    """The step is multiplied by 1/sqrt(1+lag), 1/(1+lag), or not (policy scale only)."""
    refuse_factor: NonNegative = 4.0
    """A lag above this times the number of actors, and above 4, is refused; 0: never."""
    drop_above: Amount | None = None
    """A lag above this is refused; not set: only refuse_factor counts."""
    compensation: Positive = 0.04
    """The lambda of delay compensation (policy compensate only)."""
    history_mib: Count = 256
    """Memory for earlier versions of the weights; gradients of older ones are refused (compensate only)."""
    share: Annotated[float, Meta(gt=0, le=1)] = 1.0
    """Fraction of the actors whose gradients a step waits for (synchronous only)."""
    wait_seconds: Positive = 10.0
    """Longest wait for the others after the first gradient; who was waited for in vain is not waited for again before
    it sends (synchronous only)."""


class Scaling(Section, frozen=True):
    """The number of actors that the learner asks launchers for."""

    policy: Literal["fixed", "episode-duration", "load"] = "fixed"
    """fixed: always `minimum`. episode-duration: more as episodes grow longer. load: while the learner has time."""
    minimum: Annotated[int, Meta(ge=0, le=MAX_ACTORS)] = 2
    """Actors at the start; with policy fixed, always."""
    maximum: Annotated[int, Meta(ge=1, le=MAX_ACTORS)] = 2
    """Most actors that are ever asked for (not with policy fixed)."""
    form: Literal["steps", "linear"] = "steps"
    """episode-duration: `steps`: each addition is that of the highest threshold passed; `linear`: one actor when the
    mean episode passes `first`, one more each time it has grown by another `every`."""
    unit: Literal["relative", "seconds"] = "relative"
    """What episodes are compared with: the mean length of the run's first episodes, or seconds (docs/scaling.md)."""
    thresholds_relative: list[Positive] = msgspec.field(default_factory=lambda: [2.0, 4.0, 6.0])
    """Thresholds of form steps, in multiples of the first episodes."""
    thresholds_seconds: list[Positive] = msgspec.field(default_factory=lambda: [20.0, 40.0, 60.0])
    """The same in seconds."""
    additions: list[Count] = msgspec.field(default_factory=lambda: [1, 2, 3])
    """Actors added at each threshold."""
    first_relative: Positive = 2.0
    """`first` of form linear, in multiples of the first episodes."""
    first_seconds: Positive = 20.0
    """The same in seconds."""
    every_relative: Positive = 1.0
    """`every` of form linear, in multiples of the first episodes."""
    every_seconds: Positive = 10.0
    """The same in seconds."""
    episodes_between: Amount = 100
    """Least number of episodes between two additions."""
    busy_limit: Annotated[float, Meta(gt=0, le=1)] = 0.8
    """The learner's busy fraction above which no actor is added, under every policy."""
    interval_seconds: Positive = 1.0
    """Time between two decisions; a fleet is measured over two to twenty such intervals."""

    @property
    def most(self) -> int:
        """The most actors that there may ever be."""
        return self.minimum if self.policy == "fixed" else self.maximum


class Checkpoint(Section, frozen=True):
    """When checkpoints are saved, and which are kept."""

    every_seconds: NonNegative = 20.0
    """Time between two checkpoints; 0: only at the end."""
    keep: Count = 3
    """Number of newest checkpoints; the best is kept as well."""
    best: bool = True
    """Keep the best as well, and save a new best without waiting for every_seconds."""
    return_to_best: bool = False
    """Go back to the best checkpoint when the mean return was far below its best for minutes; five times at most."""
    return_factor: Annotated[float, Meta(gt=0, le=1)] = 0.5
    """The learning rate is multiplied by this each time (return_to_best only)."""


class Evaluation(Section, frozen=True):
    """How an agent is evaluated: on episodes that no actor plays, with weights and statistics that stand still."""

    episodes: Annotated[int, Meta(ge=0, le=1000)] = 20
    """Episodes of one evaluation by `a3cd evaluator`; 0: the learner lets no evaluator in."""
    every_seconds: Annotated[float, Meta(ge=1)] = 30.0
    """Least time from one evaluation's weights to the next one's; all evaluators together."""
    sampled: bool | Literal["auto"] = "auto"
    """Actions are drawn as in training instead of the best; auto: in ALE games, where the best can stand still."""


class Record(Section, frozen=True):
    """The record of what was applied, from which `a3cd replay` makes the same weights again."""

    gradients: bool = False
    """Keep every applied gradient or rollout in the run folder (not with exchange.kind = "actions")."""
    keep_mib: Amount = 4096
    """The oldest part of the record is removed beyond this; 0: all is kept."""


class Limits(Section, frozen=True):
    """When the run ends: at the first limit reached; 0: no such limit."""

    frames: Amount = 0
    """Steps of the agents in their environments, all together."""
    episodes: Amount = 0
    """Finished episodes, all together."""
    seconds: NonNegative = 0.0
    """Time that the learner has worked at the run."""
    until_return: float | None = None
    """The goal, a mean return; `until_return_of` says which."""
    until_return_of: Literal["training", "evaluation"] = "training"
    """training: the last `window` episodes. evaluation: two evaluations of the same weights (needs an evaluator)."""
    window: Annotated[int, Meta(ge=1, le=100_000)] = 100
    """Number of last episodes in the mean training return."""


class Settings(Section, frozen=True):
    """All settings of a run."""

    seed: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    """Seed of the network's first weights, the episodes and the drawn actions."""
    reproducible: bool = False
    """The same settings give the same weights to the last bit, with the same versions on the same kind of machine: a
    fixed number of actors (scaling.minimum), and a step when each of them has sent (docs/operating.md)."""
    environment: Environment = Environment()
    network: Network = Network()
    algorithm: Algorithm = Algorithm()
    optimizer: Optimizer = Optimizer()
    exchange: Exchange = Exchange()
    staleness: Staleness = Staleness()
    scaling: Scaling = Scaling()
    checkpoint: Checkpoint = Checkpoint()
    evaluation: Evaluation = Evaluation()
    record: Record = Record()
    limits: Limits = Limits()


SECTIONS: dict[str, type[Section]] = {
    field.name: field.type
    for field in msgspec.structs.fields(Settings)
    if isinstance(field.type, type) and issubclass(field.type, Section)
}
"""The sections by their names in a file."""
