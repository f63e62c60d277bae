"""A player that packs its rollouts as they are; the learner computes their gradients."""

from actor.players.rollouts import RolloutPlayer
from actor.rollout_summary import RolloutSummary
from common.errors import NonFiniteError
from common.rl.environments.base import MakeEnvironments
from common.rl.rollout import Rollout
from common.settings.sections import Settings
from common.wire.bodies.trajectory import MAX_ABS_VALUE, TrajectoryFormat, usable
from common.wire.frames import Buffer
from common.wire.messages import Trajectory, Welcome


class TrajectoryPlayer(RolloutPlayer):
    """Keeps rollouts until they are packed."""

    contribution = Trajectory

    def __init__(
        self, welcome: Welcome, settings: Settings, body: Buffer | None, make: MakeEnvironments | None = None
    ) -> None:
        super().__init__(welcome, settings, body, make)
        self._format = TrajectoryFormat(settings, self.observation, self.action, self.model.state_size)
        self._codec = welcome.codec
        self._kept: list[Rollout] = []

    def advance(self, until: float) -> bool:
        played = self.play(until)
        if played is None:
            return False
        rollout, summary = played
        if not usable(rollout):
            raise NonFiniteError(f"a number that is not finite, or beyond {MAX_ABS_VALUE:g}: rollout dropped")
        self._kept.append(rollout.copy())
        self._summary.add(summary)
        return True

    def pack(self, sequence: int | None) -> tuple[RolloutSummary, bytes]:  # noqa: ARG002  packing is lossless
        body = self._format.pack(self._kept, self._codec)
        self._kept = []
        return self._take_summary(), body

    def forget(self) -> None:
        super().forget()
        self._kept = []
