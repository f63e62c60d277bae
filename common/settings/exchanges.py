"""What actors send to the learner, and whether it waits for all: what each algorithm can use, what `auto` means."""

from common.settings.sections import Settings

ADAMS_BETA1 = 0.9
"""Adam's usual beta1 (Kingma and Ba 2014, https://arxiv.org/abs/1412.6980)."""
MAX_LIST_ITEMS = 2**16
"""Entries of a list in the header of a message; more episodes than this cannot end in one gradient."""
MOST_SUMMED = 16
"""Most rollouts in one sum of a relay, unless a single gradient has more: with more, steps are too few."""

EXCHANGES: dict[str, tuple[str, ...]] = {
    "a3c": ("gradients", "trajectories", "actions"),
    "one-step-q": ("gradients",),
    "n-step-q": ("gradients",),
    "one-step-sarsa": ("gradients",),
    "a2c": ("trajectories",),
    "vtrace": ("trajectories", "actions"),
    "ppo": ("trajectories", "gradients"),
}
"""Values of exchange.kind that each algorithm can use, the usual one first."""

SYNCHRONOUS = ("a2c", "ppo")
"""Algorithms without a correction for actors that play on while the learner learns."""


def resolve(settings: Settings, network: str, device: str) -> str:
    """Return the exchange.kind of a run, which is decided once, before its first frame.

    "auto" is the algorithm's usual kind, with one exception: an algorithm whose usual kind is gradients, and which can
    use trajectories (a3c), uses trajectories if the learner's device is a GPU and the network is not dense, since a GPU
    computes the gradients of such a network faster than the actors' CPUs. `a3cd bench exchange` measures both. It
    stays with gradients if other settings need what only gradients have.
    network, device: resolved network.kind and optimizer.device.
    """
    kind = settings.exchange.kind
    if kind != "auto":
        return kind
    usual, *others = EXCHANGES[settings.algorithm.kind]
    on_gpu = device != "cpu" and network != "dense"
    if usual == "gradients" and "trajectories" in others and on_gpu and not _asks_for_gradients(settings):
        return "trajectories"
    return usual


def wanted_device(settings: Settings) -> str:
    """Return the optimizer.device that a learner opens. settings: with network.kind resolved.

    "auto" is the CPU where actors compute the gradients of a dense network: a GPU added up and applied 0.4 times as
    many (`python -m benchmarks gpu`), and takes seconds to start.
    """
    device = settings.optimizer.device
    if device == "auto" and settings.network.kind == "dense" and resolve(settings, "dense", "cuda") == "gradients":
        return "cpu"
    return device


def _asks_for_gradients(settings: Settings) -> bool:
    exchange = settings.exchange
    return (
        exchange.codec not in ("auto", "none")
        or exchange.error_feedback is True
        or exchange.robust != "none"
        or settings.algorithm.whole_episodes
        or settings.staleness.policy == "compensate"
    )


def staleness_policy(settings: Settings) -> str:
    """Return the staleness.policy of a run: "auto" is synchronous for algorithms whose batch is from one policy."""
    policy = settings.staleness.policy
    if policy == "auto":
        return "synchronous" if settings.algorithm.kind in SYNCHRONOUS else "scale"
    return policy


def momentum(settings: Settings, kind: str) -> float:
    """Return the optimizer.beta1 of a run. kind: its resolved exchange.kind."""
    beta1 = settings.optimizer.beta1
    if beta1 is not None:
        return beta1
    return 0.0 if kind == "gradients" and staleness_policy(settings) != "synchronous" else ADAMS_BETA1


def most_accumulated(settings: Settings) -> int:
    """Return the most rollouts that an actor adds up while it waits for an answer; 0 if each step waits for it."""
    return 0 if staleness_policy(settings) == "synchronous" else settings.exchange.accumulate


def most_in_message(settings: Settings) -> int:
    """Return the most rollouts in one message of an actor."""
    return max(1, most_accumulated(settings))


def why_no_relay(settings: Settings) -> str:
    """Return why no relay can stand between learner and actors of a run; empty if one can. settings: resolved."""
    kind, credit = settings.exchange.kind, settings.exchange.credit
    if kind != "gradients":
        return f'a relay adds gradients up, and this run\'s actors send none: exchange.kind = "{kind}"'
    if settings.reproducible or staleness_policy(settings) == "synchronous":
        return "each step of this run waits for its actors (reproducible, or staleness.policy), a relay does not"
    if not credit:
        return "a relay would queue gradients without end: exchange.credit = 0"
    return ""


def most_in_sum(settings: Settings) -> int:
    """Return the most rollouts in one gradient of a relay."""
    return max(MOST_SUMMED, settings.exchange.accumulate)


def possible(settings: Settings) -> set[str]:
    """Return what `resolve` may return; network.kind and optimizer.device may still be "auto"."""
    network, device = settings.network.kind, settings.optimizer.device
    networks = ("dense", "conv-a3c") if network == "auto" else (network,)
    devices = ("cpu", "cuda") if device == "auto" else (device,)
    return {resolve(settings, one, other) for one in networks for other in devices}
