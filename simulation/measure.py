"""What things cost on this machine: the parts of a small simulated run, by the real clock."""

import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import msgspec
import numpy as np

from actor.effects import Prepare
from actor.players.base import Player
from actor.players.gradients import GradientPlayer
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

    def around(self, function: Callable[P, T], moves: Callable[[], object] = object) -> Callable[P, T]:
        """`function`, each call of which is timed in which `moves` changes; by default every call."""

        def timed(*arguments: P.args, **options: P.kwargs) -> T:
            before, begun = moves(), time.thread_time()  # other processes have no part in it
            try:
                return function(*arguments, **options)
            finally:
                seconds = time.thread_time() - begun
                if moves() != before:
                    self.seconds.append(seconds)

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
    advancing, playing, stepping, sending = _Stopwatch(), _Stopwatch(), _Stopwatch(), _Stopwatch()
    cluster = Cluster(settings, Simulation(costs=costs), MemoryRecorder())

    def make(effect: Prepare, node: ActorNode) -> Player:
        player = build_player(effect, node)
        player.advance = advancing.around(player.advance)  # type: ignore[method-assign]
        if isinstance(player, GradientPlayer):  # what it does besides playing is the gradient
            player.play = playing.around(player.play)  # type: ignore[method-assign]
        node.core.advanced = sending.around(node.core.advanced)  # type: ignore[method-assign]
        for environments in node.maker.made:
            environments.inner.step = stepping.around(environments.inner.step)  # type: ignore[method-assign]
        return player

    actor = cluster.start_actor("measured", Host(), make_player=make)
    core, handling, optimizing = cluster.learner.core, _Stopwatch(), _Stopwatch()
    counters = core.run.stats.counters
    core.flush = optimizing.around(core.flush, lambda: counters.version)  # type: ignore[method-assign]
    core.handle = handling.around(core.handle)  # type: ignore[method-assign]
    until = time.perf_counter() + SECONDS
    while not cluster.over and (time.perf_counter() < until or len(sending.seconds) < LEAST_ROLLOUTS):
        cluster.run(cluster.queue.now + 0.1)
    batches = max(1, len(stepping.seconds))
    environments = actor.maker.steps / batches
    rollouts = max(1, len(sending.seconds))
    computing = max(0.0, advancing.total - playing.total) if playing.seconds else 0.0
    acting = max(0.0, advancing.total - computing - stepping.total) / batches
    return msgspec.structs.replace(
        costs,
        batch_step=acting,
        environment_step=stepping.total / batches / max(1.0, environments),
        gradient=(computing + sending.total) / rollouts,
        gradient_step=0.0,
        message=max(0.0, handling.median - optimizing.median) + SHELL_SECONDS,
        message_mib=0.0,
        optimizer_step=optimizing.median,
    )
