"""Scaling policies before and after their faults were cured, on a simulated fleet.

    python -m benchmarks cures [--seconds 240]

load: the fleet starts with 20 actors, and 17 keep the learner at its busy limit. The old policy decided by the rates of
the last five seconds and the lag of the last 1024 gradients, however many actors had sent these; `Before` implements
that rule on today's statistics. In the changing fleet half the actors crash after 60 s, and their host cannot be
reached from 120 to 180 s. Actors always send the same gradient: nothing is learnt.

episode-duration: CartPole-v1 to 475 at 50 steps a second, with 2 to 8 actors. The old policy measured episodes in
seconds.
"""

from __future__ import annotations

import argparse
import math
from collections import deque
from typing import Any

from actor.effects import Prepare
from benchmarks import tables
from benchmarks.size import SteadyPlayer, gradient
from common.run import presets
from common.settings.sections import Settings
from common.settings.toml import replace_at
from learner.meters import WINDOW_SECONDS
from learner.run_stats import RunStats
from learner.scaling import Decision, Measurement, Scaler
from learner.scaling.measure import OLDEST
from simulation.actor_node import ActorNode
from simulation.cluster import Cluster
from simulation.recorders import MemoryRecorder
from simulation.settings import Costs, Host, Incident, Simulation

FIRST, FITTING = 20, 17
PARAMETERS = 1027
ROLLOUT_SECONDS = 0.5
STEP_SECONDS = 0.02
"""Duration of a step of CartPole-v1."""
TARGET, GROWTH, FEWER_WHEN_OLD, YOUNG = 0.85, 0.5, 0.75, 1.0
"""Constants of the old policy."""
CHANGES = [
    Incident(at=60.0, kind="crash", who="attic"),
    Incident(at=120.0, kind="partition", who="attic"),
    Incident(at=180.0, kind="heal", who="attic"),
]
LOOKS = (10, 30, 60, 120, 180, 240)
LOAD: dict[str, Any] = {
    "exchange.kind": "gradients",
    "exchange.codec": "none",
    "exchange.entropy_coder": "none",
    "scaling.policy": "load",
    "scaling.minimum": 2,
    "scaling.maximum": 40,
    "limits.frames": 0,
    "limits.until_return": 1e9,
    "limits.seconds": 3600.0,
}


class Before(Scaler):
    """The policy `load` as it was up to commit 253394c: it used figures without asking which actors they came from."""

    def __init__(self, settings: Settings, stats: RunStats) -> None:
        super().__init__(settings.scaling)
        self._scaling = settings.scaling
        self._stats = stats
        self._steps: deque[tuple[float, int]] = deque()

    def decide(self, now: float, measurement: Measurement) -> Decision:
        section, wanted, actors = self._scaling, measurement.wanted, measurement.actors
        self._steps.append((now, self._stats.counters.version))
        while now - self._steps[0][0] > WINDOW_SECONDS:
            self._steps.popleft()
        if actors != wanted or self._stats.messages_per_second(now) <= 0.0:
            return Decision(wanted, "waiting")
        busy, age = self._stats.busy.recent(now), self._age(now, actors)
        if busy > section.busy_limit or (age is not None and age > OLDEST):
            kept = TARGET * section.busy_limit / busy if busy > section.busy_limit else FEWER_WHEN_OLD
            return Decision(max(section.minimum, min(math.floor(actors * kept), actors - 1)), "fewer")
        if age is not None and age > YOUNG:
            return Decision(wanted, "old")
        room = math.floor(actors * TARGET * section.busy_limit / busy) if busy else section.maximum
        more = min(room, actors + max(1, int(actors * GROWTH)), section.maximum)
        return Decision(max(wanted, more), "more")

    def _age(self, now: float, actors: int) -> float | None:
        """Return the age from the lag of the last thousand gradients, the last seconds' rates, and today's actors."""
        (then, before), (_, after) = self._steps[0], self._steps[-1]
        lag = self._stats.figures(now)["lag_mean"]
        if now == then or after == before or lag <= 1.0:
            return None
        rate = (after - before) / (now - then)
        return float(lag * self._stats.messages_per_second(now) / (actors * rate))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=LOOKS[-1])
    arguments = parser.parse_args()
    tables.machine()
    looks = [look for look in LOOKS if look <= arguments.seconds]
    rows: list[tuple[Any, ...]] = []
    for fleet, changes in (("steady", []), ("changing", CHANGES)):
        for name, old in (("before", True), ("now", False)):
            numbers = course(arguments.seconds, old=old, incidents=changes)
            shown = [numbers[look - 1] for look in looks]
            rows.append((f"{fleet}, {name}", *shown, min(numbers), sum(numbers) / len(numbers)))
    columns = (*(f"{look} s" for look in looks), "fewest", "mean")
    tables.show(f"load, actors wanted: {FIRST} at first, {FITTING} fit", ("", *columns), rows)
    figures = ("most actors", "virtual s", "mean episode, s", "thresholds")
    runs = [(name, *duration(unit)) for name, unit in (("before: seconds", "seconds"), ("now: relative", "relative"))]
    tables.show("episode-duration, CartPole-v1 to 475, 2 to 8 actors", ("", *figures), runs)


def course(seconds: int, *, old: bool, incidents: list[Incident]) -> list[int]:
    """Return the number of actors that `load` wanted at the end of each second."""
    settings = replace_at(presets.for_environment("CartPole-v1", None), LOAD)
    body = gradient(PARAMETERS)
    reading = settings.scaling.busy_limit * ROLLOUT_SECONDS / FITTING
    costs = Costs(message_mib=reading * 2**20 / len(body), optimizer_step=0.0, message=1e-4)

    def player(effect: Prepare, node: ActorNode) -> SteadyPlayer:
        return SteadyPlayer(body, effect.welcome.version, node, ROLLOUT_SECONDS)

    hosts = [Host(name="lab", slots=20), Host(name="attic", slots=20)]
    world = Simulation(costs=costs, hosts=hosts, incidents=incidents)
    cluster = Cluster(settings, world, MemoryRecorder(), make_player=player)
    core = cluster.learner.core
    core.run.stats.decided(Decision(FIRST, "so many at first"))
    if old:
        core._fleet._scaler = Before(settings, core.run.stats)
    numbers = []
    for second in range(1, seconds + 1):
        cluster.run(float(second))
        numbers.append(core.run.stats.decision.wanted)
    return numbers


def duration(unit: str) -> tuple[Any, ...]:
    """Return the values of the columns for a run that measures episodes in `unit`."""
    changes = {
        "exchange.kind": "gradients",
        "scaling.policy": "episode-duration",
        "scaling.unit": unit,
        "scaling.form": "steps",
        "scaling.episodes_between": 100,
        "scaling.minimum": 2,
        "scaling.maximum": 8,
    }
    settings = replace_at(presets.for_environment("CartPole-v1", None), changes)
    cluster = Cluster(settings, Simulation(costs=Costs(batch_step=STEP_SECONDS)), MemoryRecorder())
    cluster.run()
    status = cluster.status()
    thresholds = getattr(settings.scaling, f"thresholds_{unit}")
    return status.actors_peak, status.seconds, status.episode_seconds, ", ".join(f"{one:g}" for one in thresholds)


if __name__ == "__main__":
    main()
