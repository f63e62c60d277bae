"""What travels between actors and learner, by algorithm. Without torch: the settings are checked against it."""

from __future__ import annotations

from common.settings.sections import Settings

EXCHANGES: dict[str, tuple[str, ...]] = {
    "a3c": ("gradients", "trajectories", "actions"),
    "one-step-q": ("gradients",),
    "n-step-q": ("gradients",),
    "one-step-sarsa": ("gradients",),
    "a2c": ("trajectories",),
    "vtrace": ("trajectories", "actions"),
    "ppo": ("trajectories", "gradients"),
}
"""Values of exchange.kind that each algorithm can do with; the first is what `auto` begins with."""


def resolve(exchange: str, algorithm: str) -> str:
    """The exchange.kind that `exchange` begins with, with this algorithm."""
    return EXCHANGES[algorithm][0] if exchange == "auto" else exchange


def is_measured(settings: Settings) -> bool:
    """Whether exchange.kind = "auto" is decided by what is measured: the run could do with trajectories as well."""
    algorithm, exchange = settings.algorithm, settings.exchange
    return (
        exchange.kind == "auto"
        and EXCHANGES[algorithm.kind][:2] == ("gradients", "trajectories")
        and settings.staleness.policy == "scale"
        and not algorithm.whole_episodes
        and exchange.codec in ("auto", "none")
        and exchange.error_feedback is not True
        and exchange.credit > 0
    )
