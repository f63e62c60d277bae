"""Measures the costs of a simulation on this machine: a small simulated run's parts, timed by the real clock."""

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
"""Real time that a measurement takes."""
LEAST_ROLLOUTS = 20
SHELL_SECONDS = 4e-5
"""Learner's time per message in ZeroMQ, which is not simulated (docs/performance.md)."""
P = ParamSpec("P")
T = TypeVar("T")


class _Stopwatch:
    """Processor seconds of each call of a function."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.total = 0.0

    def around(
        self,
        function: Callable[P, T],
        moves: Callable[[], object] = object,
        without: "_Stopwatch | None" = None,
    ) -> Callable[P, T]:
        """Returns `function` with a timer around each call that changes `moves()`; by default around every call.

        `without`: what this one measures during a call is left out of the call's seconds.
        """

        def timed(*arguments: P.args, **options: P.kwargs) -> T:
            apart = without.total if without else 0.0
            before, begun = moves(), time.thread_time()  # not wall time, which includes other processes
            try:
                return function(*arguments, **options)
            finally:
                seconds = time.thread_time() - begun - (without.total - apart if without else 0.0)
                if moves() != before:
                    self.seconds.append(seconds)
                    self.total += seconds

        return timed

    @property
    def median(self) -> float:
        return float(np.median(self.seconds)) if self.seconds else 0.0


def measured(settings: Settings, costs: Costs) -> Costs:
    """Returns `costs` with the values that one actor and its learner show here; takes about `SECONDS`."""
    settings = replace_at(
        settings,
        {"scaling.policy": "fixed", "scaling.minimum": 0, "limits.seconds": 0.0, "environment.step_seconds": 0.0},
    )
    advancing, playing, stepping, sending = _Stopwatch(), _Stopwatch(), _Stopwatch(), _Stopwatch()
    cluster = Cluster(settings, Simulation(costs=costs), MemoryRecorder())

    def make(effect: Prepare, node: ActorNode) -> Player:
        player = build_player(effect, node)
        player.advance = advancing.around(player.advance)  # type: ignore[method-assign]
        if isinstance(player, GradientPlayer):  # besides playing it only computes gradients
            player.play = playing.around(player.play)  # type: ignore[method-assign]
        node.core.advanced = sending.around(node.core.advanced)  # type: ignore[method-assign]
        for environments in node.maker.made:
            environments.inner.step = stepping.around(environments.inner.step)  # type: ignore[method-assign]
        return player

    actor = cluster.start_actor("measured", Host(), make_player=make)
    core, handling, optimizing, answering = cluster.learner.core, _Stopwatch(), _Stopwatch(), _Stopwatch()
    counters = core.run.stats.counters
    core.flush = optimizing.around(core.flush, lambda: counters.version)  # type: ignore[method-assign]
    core.answer = answering.around(core.answer, lambda: counters.action_bytes)  # type: ignore[method-assign]
    core.handle = handling.around(core.handle, without=optimizing)  # type: ignore[method-assign]
    until = time.perf_counter() + SECONDS
    while not cluster.over and (time.perf_counter() < until or len(sending.seconds) < LEAST_ROLLOUTS):
        cluster.run(cluster.queue.now + 0.1)
    batches = max(1, len(stepping.seconds))
    environments = actor.maker.steps / batches
    rollouts = max(1, len(sending.seconds))
    computing = max(0.0, advancing.total - playing.total) if playing.seconds else 0.0
    acting = max(0.0, advancing.total - computing - stepping.total) / batches
    step: dict[str, float] = {"optimizer_step": optimizing.median}
    if cluster.settings.exchange.kind != "gradients":  # the step was measured with what the learner computes in it
        learning, frames = optimizing.median * counters.version, max(1, counters.frames)
        step = {"optimizer_step": 0.0, "learner_frame": (learning + answering.total) / frames}
    return msgspec.structs.replace(
        costs,
        batch_step=acting,
        environment_step=stepping.total / batches / max(1.0, environments),
        gradient=(computing + sending.total) / rollouts,
        gradient_step=0.0,
        message=handling.median + SHELL_SECONDS,
        message_mib=0.0,
        **step,
    )
