"""The interface of a player towards the actor's core and daemon, whatever the run exchanges."""

from typing import ClassVar

from actor.rollout_summary import RolloutSummary
from common.wire.frames import Buffer
from common.wire.messages import AnyMessage, Gradient, Trajectory


class Player:
    """Environments of one run, and what is made of their steps: gradients, trajectories, or requests for actions.

    The daemon calls `advance` and `close`; the core, which decides what is sent and when, calls all the others.
    """

    contribution: ClassVar[type[Gradient] | type[Trajectory]]
    """The message that `pack` gives a body for."""

    @property
    def ready(self) -> bool:
        """Whether `advance` has anything to do."""
        return True

    @property
    def pending(self) -> int:
        """Rollouts that the next body would hold."""
        return 0

    def advance(self, until: float) -> bool:
        """Plays until a rollout or a step is complete, or until the time `until`.

        True: it is complete, and all environments that failed before have played on. Raises UnavailableError when an
        environment fails, NonFiniteError for a reward, an observation or a gradient that is not finite, and CodecError
        for weights that do not decode.
        """
        raise NotImplementedError

    def handle(self, message: AnyMessage, body: Buffer | None) -> None:
        """A Welcome that keeps this player, or an Act. Raises CodecError for a body that does not decode."""

    def load(self, version: int, body: Buffer, *, delta: bool = False) -> bool:  # noqa: ARG002  without a network
        """Newer weights of this epoch; False: a delta against other weights than the whole ones that came last."""
        return True

    def pack(self, sequence: int | None) -> tuple[RolloutSummary, bytes]:
        """The pending rollouts, which are no longer pending.

        sequence: `answered` will be called with this number; None: nobody waits for an answer.
        """
        raise NotImplementedError

    def answered(self, sequence: int, *, dropped: bool) -> None:
        """The learner has answered; dropped: what was packed under that number is in no step."""

    def restart(self) -> None:
        """Something failed: drops the rollout under way; the next `advance` begins new episodes."""

    def forget(self) -> None:
        """A new epoch: drops what is pending, and all weights and answers of the epoch before."""

    def close(self) -> None:
        raise NotImplementedError
