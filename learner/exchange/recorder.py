"""Makes the record of what was applied (record.gradients): all that the weights depend on, as effects for the shell."""

from typing import cast

import msgspec

from common.wire.frames import Buffer
from common.wire.messages import Contribution, Gradient, Trajectory
from learner.applied import Added, Began, Stepped
from learner.effects import Record
from learner.parameters.step_result import StepResult
from learner.parameters.weights import Weights
from learner.peer import Peer
from learner.run import Run

CHECKSUM_BYTES = 2**16
"""Bytes of weights up to which every step gets a checksum; for weights n times as long, only every n-th step does."""


class Recorder:
    def __init__(self, run: Run, weights: Weights) -> None:
        self._run = run
        self._weights = weights
        self._every = max(1, 4 * weights.vector.numel() // CHECKSUM_BYTES)

    def began(self) -> list[Record]:
        """Return the entry that tells where this epoch starts from; called before anything is applied."""
        spec, counters = self._run.spec, self._run.stats.counters
        entry = Began(
            a3cd=spec.versions.get("a3cd", "not installed"),
            run=spec.run,
            epoch=spec.epoch,
            settings=msgspec.to_builtins(spec.settings),
            model=spec.model,
            parameters=spec.parameters,
            version=counters.version,
            frames=counters.last_step_frames,
            checksum=self._weights.checksum,
        )
        return [Record(entry)]

    def added(
        self, peer: Peer, header: Contribution, body: Buffer, weight: float, lag: int, *, against: bool = False
    ) -> list[Record]:
        name, incarnation = peer.incarnation
        message = cast(Gradient | Trajectory, header)
        entry = Added(peer=name, incarnation=incarnation, header=message, weight=weight, lag=lag, against=against)
        return [Record(entry, body)]

    def stepped(self, scale: float, frames: int, result: StepResult) -> list[Record]:
        version = self._run.stats.counters.version
        checksum = self._weights.checksum if version % self._every == 0 else None
        entry = Stepped(
            version=version, scale=scale, frames=frames, left_out=sorted(result.left_out), checksum=checksum
        )
        return [Record(entry)]
