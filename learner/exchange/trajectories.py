"""Actors send rollouts, and the learner computes the gradients (exchange.kind = "trajectories")."""

from common.settings.exchanges import most_in_message
from common.wire.bodies.trajectory import TrajectoryFormat
from common.wire.codecs.negotiate import choose
from common.wire.frames import Buffer
from common.wire.messages import Contribution, Hello, Trajectory
from learner.exchange.base import ContributionExchange
from learner.parameters.batch_trainer import BatchTrainer
from learner.run import Run


class TrajectoryExchange(ContributionExchange):
    """Takes packed rollouts, and makes optimizer steps on all that wait as one batch."""

    message = Trajectory
    plural = "trajectories"

    def __init__(self, run: Run, trainer: BatchTrainer, packing: TrajectoryFormat) -> None:
        super().__init__(run, packing.max_bytes(most_in_message(run.spec.settings)), trainer)
        self._trainer = trainer
        self._packing = packing

    def choose_codec(self, hello: Hello) -> str:
        """Choose only an entropy coder, since nothing may be lost; lz4 saves time even on loopback: frames shrink."""
        exchange = self._settings.exchange
        return choose(
            "none",
            exchange.entropy_coder,
            hello.codecs,
            size=self._run.spec.parameters,
            loopback=False,
            link_mbit=0.0 if hello.host == self._run.spec.host else exchange.link_mbit,
        )

    def named(self) -> list[str]:
        return super().named() + self._trainer.troubles

    def _add(self, header: Contribution, body: Buffer, weight: float, lag: int, source: str) -> None:  # noqa: ARG002
        rollout = self._packing.unpack(body, header.codec, header.count)
        self._trainer.add(rollout, weight=weight, count=header.count)
