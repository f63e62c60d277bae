"""What things cost on this machine: the parts of a small simulated run, by the real clock."""

import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import msgspec
import numpy as np

from actor.core import Prepare
from actor.players.base import Player
from common.settings.sections import Settings
from common.settings.toml import replace_at
from simulation.actor_node import ActorNode, build_player
from simulation.cluster import Cluster
from simulation.recorders import MemoryRecorder
from simulation.settings import Costs, Host, Simulation

SECONDS = 3.0
"""Of real time."""
LEAST_ROLLOUTS = 20
SHELL_SECONDS = 4e-5
"""Of the learner, for each message: ZeroMQ, which is not simulated (docs/performance.md)."""
P = ParamSpec("P")
T = TypeVar("T")


class _Stopwatch:
    """Seconds of the processor in each call of a function."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def around(self, function: Callable[P, T]) -> Callable[P, T]:
        def timed(*arguments: P.args, **options: P.kwargs) -> T:
            begun = time.thread_time()  # other processes have no part in it
            try:
                return function(*arguments, **options)
            finally:
                self.seconds.append(time.thread_time() - begun)

        return timed

    @property
    def total(self) -> float:
        return sum(self.seconds)

    @property
    def median(self) -> float:
        return float(np.median(self.seconds)) if self.seconds else 0.0


def measured(settings: Settings, costs: Costs) -> Costs:
    """The costs with what one actor and its learner take here, for about `SECONDS`."""
    settings = replace_at(
        settings,
        {"scaling.policy": "fixed", "scaling.minimum": 0, "limits.seconds": 0.0, "environment.step_seconds": 0.0},
    )
    playing, stepping, sending, computing = _Stopwatch(), _Stopwatch(), _Stopwatch(), _Stopwatch()
    cluster = Cluster(settings, Simulation(costs=costs), MemoryRecorder())

    def make(effect: Prepare, node: ActorNode) -> Player:
        player = build_player(effect, node)
        player.advance = playing.around(player.advance)  # type: ignore[method-assign]
        node.core.advanced = sending.around(node.core.advanced)  # type: ignore[method-assign]
        if hasattr(player, "_add_gradient"):
            player._add_gradient = computing.around(player._add_gradient)
        for environments in node.maker.made:
            environments._inner.step = stepping.around(environments._inner.step)  # type: ignore[method-assign]
        return player

    actor = cluster.start_actor("measured", Host(), make_player=make)
    core, handling, optimizing = cluster.learner.core, _Stopwatch(), _Stopwatch()
    core._exchange.advance = optimizing.around(core._exchange.advance)  # type: ignore[attr-defined]
    core.handle = handling.around(core.handle)  # type: ignore[method-assign]
    until = time.perf_counter() + SECONDS
    while not cluster.over and (time.perf_counter() < until or len(sending.seconds) < LEAST_ROLLOUTS):
        cluster.run(cluster.queue.now + 0.1)
    batches = max(1, len(stepping.seconds))
    environments = actor.maker.steps / batches
    rollouts = max(1, len(sending.seconds))
    acting = max(0.0, playing.total - stepping.total - computing.total) / batches
    return msgspec.structs.replace(
        costs,
        batch_step=acting,
        environment_step=stepping.total / batches / max(1.0, environments),
        gradient=(computing.total + sending.total) / rollouts,
        gradient_step=0.0,
        message=max(0.0, handling.median - optimizing.median) + SHELL_SECONDS,
        message_mib=0.0,
        optimizer_step=optimizing.median,
    )
