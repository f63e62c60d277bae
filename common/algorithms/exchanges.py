"""What travels between actors and learner, by algorithm. Without torch: the settings are checked against it."""

from __future__ import annotations

EXCHANGES: dict[str, tuple[str, ...]] = {
    "a3c": ("gradients", "trajectories", "actions"),
    "one-step-q": ("gradients",),
    "n-step-q": ("gradients",),
    "one-step-sarsa": ("gradients",),
    "a2c": ("trajectories",),
    "vtrace": ("trajectories", "actions"),
    "ppo": ("trajectories", "gradients"),
}
"""Values of exchange.kind that each algorithm can do with; the first is what `auto` stands for."""


def resolve(exchange: str, algorithm: str) -> str:
    """The exchange.kind that `exchange` stands for with this algorithm."""
    return EXCHANGES[algorithm][0] if exchange == "auto" else exchange
