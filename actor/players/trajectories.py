"""A player that sends its rollouts as they are; the learner computes their gradients."""

from __future__ import annotations

from actor.players.base import Player
from actor.players.rollouts import Rollouts
from actor.rollout_summary import RolloutSummary
from common.errors import NonFiniteError
from common.rl.rollout import Rollout
from common.settings.sections import Settings
from common.wire.bodies.trajectory import TrajectoryFormat, usable
from common.wire.frames import Buffer
from common.wire.messages import Trajectory, Welcome


class TrajectoryPlayer(Player):
    """Keeps rollouts until they are packed."""

    contribution = Trajectory

    def __init__(self, welcome: Welcome, settings: Settings, body: Buffer | None) -> None:
        """Raises as `Rollouts`."""
        self._rollouts = rollouts = Rollouts(welcome, settings, body)
        state_size = rollouts.model.network.state_size
        self._format = TrajectoryFormat(settings, rollouts.observation, rollouts.action, state_size)
        self._codec = welcome.codec
        self._kept: list[Rollout] = []
        self._summary = RolloutSummary()

    @property
    def pending(self) -> int:
        return len(self._kept)

    def advance(self, until: float) -> bool:
        played = self._rollouts.advance(until)
        if played is None:
            return False
        rollout, summary = played
        if not usable(rollout):
            raise NonFiniteError("an observation or a probability is not finite: rollout dropped")
        self._kept.append(rollout.copy())
        self._summary.add(summary)
        return True

    def pack(self, sequence: int | None) -> tuple[RolloutSummary, bytes]:  # noqa: ARG002  nothing is lost in packing
        body = self._format.pack(self._kept, self._codec)
        summary = self._summary
        self._clear()
        return summary, body

    def load(self, version: int, body: Buffer, *, delta: bool = False) -> bool:
        return self._rollouts.weights.offer(version, body, delta=delta)

    def restart(self) -> None:
        self._rollouts.restart()

    def forget(self) -> None:
        self._clear()
        self._rollouts.forget()

    def close(self) -> None:
        self._rollouts.close()

    def _clear(self) -> None:
        self._kept = []
        self._summary = RolloutSummary()
