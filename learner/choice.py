"""Gradients or trajectories, by what both would take: a pure function of what actors and learner have measured.

The rollouts a second of either way are the least of four bounds: what the actors can play, what the learner can take
in, what this machine's processors can do for both, and what the way between them carries with the credit there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from common.wire.messages import Trial
from learner.exchange import staleness

MARGIN = 1.5
"""Trajectories must be so many times as fast: figures of a few rollouts are rough, and changing over costs a moment.
Small tasks such as CartPole would gain up to a fifth where there are processors to spare."""
LOOK_SECONDS = 0.02
"""Actors look for answers this often, or once a gradient is computed: so much of a round trip may be that."""
LEAST = 1e-6
"""Seconds below which nothing is believed to be done."""
Kind = Literal["gradients", "trajectories"]


@dataclass(frozen=True)
class Costs:
    """What one thing takes the learner, in seconds."""

    add: float
    """Unpacking and adding a gradient."""
    learn: float
    """Unpacking a rollout and computing its gradient."""
    step: float
    """An optimizer step."""


@dataclass(frozen=True)
class Conditions:
    """What the run is given."""

    actors: int
    """As many as are expected."""
    here: float
    """Fraction of them on the learner's machine, 0 to 1."""
    processors: int
    """Of the learner's machine."""
    link_mbit: float
    """Of the learner to actors elsewhere, together; 0: not known."""
    accumulate: int
    credit: int
    coalesce: int
    busy_limit: float


@dataclass(frozen=True)
class Choice:
    """What was chosen, and the numbers."""

    kind: Kind
    why: str


def choose(trials: Sequence[Trial], costs: Costs, given: Conditions) -> Choice:
    """The faster way, in rollouts per second: gradients, unless trajectories are `MARGIN` times as fast.

    Of several actors' trials, at least one, the median of each figure counts.
    """
    names = Trial.__struct_fields__
    trial = Trial(
        **{name: type(getattr(trials[0], name))(median(getattr(one, name) for one in trials)) for name in names}
    )
    stepping = costs.step / staleness.coalesce(given.actors, given.coalesce)
    gradient_work = trial.gradient + trial.gradient_packing
    per_byte = _seconds_per_byte(trial, costs, given)
    latency = max(0.0, trial.latency - _unnoticed(trial))
    gradients = _least(
        given,
        actor=trial.play + gradient_work,
        actor_cpu=trial.play_cpu + gradient_work,
        learner=costs.add + stepping,
        message=latency + trial.gradient_bytes * per_byte,
    )
    trajectories = _least(
        given,
        actor=trial.play + trial.trajectory_packing,
        actor_cpu=trial.play_cpu + trial.trajectory_packing,
        learner=costs.learn + stepping,
        message=latency + given.accumulate * trial.trajectory_bytes * per_byte,
    )
    kind: Kind = "trajectories" if trajectories[0] > MARGIN * gradients[0] else "gradients"
    why = (
        f"{_rate(gradients)} as gradients, {_rate(trajectories)} as trajectories; an actor plays "
        f"{_ms(trial.play)}, computes {_ms(trial.gradient)}, packs {_ms(trial.gradient_packing)} or "
        f"{_ms(trial.trajectory_packing)} to {trial.gradient_bytes:,} or {trial.trajectory_bytes:,} bytes; the learner "
        f"adds {_ms(costs.add)}, computes {_ms(costs.learn)}, steps {_ms(costs.step)}; round trip "
        f"{_ms(trial.round_trip)}, {given.actors} actors"
    )
    return Choice(kind, why)


def _unnoticed(trial: Trial) -> float:
    return LOOK_SECONDS + trial.gradient


def _seconds_per_byte(trial: Trial, costs: Costs, given: Conditions) -> float:
    """Of one actor's messages while all send; by the link's speed if that is known, else by the round trip."""
    if given.link_mbit and given.here < 1.0:
        return given.actors * 8e-6 / given.link_mbit
    way = trial.round_trip - trial.latency - trial.gradient_packing - costs.add - costs.step - _unnoticed(trial)
    return max(0.0, way) / max(1, trial.gradient_bytes)


def _least(given: Conditions, *, actor: float, actor_cpu: float, learner: float, message: float) -> tuple[float, str]:
    """Rollouts per second, and what allows no more."""
    bounds = [
        (given.actors / max(LEAST, actor), "actors"),
        (given.busy_limit / max(LEAST, learner), "learner"),
        (given.actors * given.credit * given.accumulate / max(LEAST, message), "link"),
    ]
    if given.here:
        bounds.append((given.processors / max(LEAST, given.here * actor_cpu + learner), "processors"))
    return min(bounds)


def _rate(bound: tuple[float, str]) -> str:
    return f"{bound[0]:.3g} rollouts/s (by the {bound[1]})"


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms"
