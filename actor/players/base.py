"""The interface that a player offers to the actor's core and daemon, whatever the run exchanges."""

from typing import ClassVar

from actor.rollout_summary import RolloutSummary
from common.wire.frames import Buffer
from common.wire.messages import AnyMessage, Gradient, Trajectory


class Player:
    """Plays the environments of one run, and makes gradients, trajectories or requests for actions of their steps.

    The daemon calls `advance` and `close`; the core, which decides what is sent and when, calls the other methods.
    """

    contribution: ClassVar[type[Gradient] | type[Trajectory]]
    """The type of message whose body `pack` returns."""

    @property
    def ready(self) -> bool:
        """Whether `advance` has anything to do."""
        return True

    @property
    def pending(self) -> int:
        """Number of rollouts that the next body would hold."""
        return 0

    def advance(self, until: float) -> bool:
        """Plays until a rollout or a step is complete, or until the time `until`.

        True: it is complete, and all environments that failed before have played on since. Raises UnavailableError
        when an environment fails, NonFiniteError for a reward, an observation or a gradient that is not finite, and
        CodecError for weights that do not decode.
        """
        raise NotImplementedError

    def handle(self, message: AnyMessage, body: Buffer | None) -> None:
        """Takes an Act, or a Welcome that keeps this player. Raises CodecError for a body that does not decode."""

    @property
    def keyframe(self) -> int | None:
        """Version of the whole weights here, against which deltas are, -1 for none; None: there are no deltas."""
        return None

    def load(self, version: int, body: Buffer, *, delta: bool = False) -> bool:  # noqa: ARG002  no network here
        """Takes newer weights of this epoch; False: a delta against weights other than the last whole ones."""
        return True

    def pack(self, sequence: int | None) -> tuple[RolloutSummary, bytes]:
        """Returns the summary and the packed body of the pending rollouts; afterwards none is pending.

        sequence: the number with which `answered` will be called; None: no answer is expected.
        """
        raise NotImplementedError

    def answered(self, sequence: int, *, dropped: bool) -> None:
        """The learner has answered; dropped: no optimizer step includes what was packed with that number."""

    def restart(self) -> None:
        """Drops the rollout under way after a failure; the next `advance` begins new episodes."""

    def forget(self) -> None:
        """Starts a new epoch: drops the pending rollouts, and all weights and answers of the previous epoch."""

    def close(self) -> None:
        raise NotImplementedError
