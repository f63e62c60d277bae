"""A learner that records, without sockets: its folder and its actors' messages are real, and it may die at any time."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import torch

from actor.outbox import Outbox
from actor.players.build import build as build_player
from common.run.folder import RunFolder
from common.settings.sections import Settings
from common.wire.codecs.registry import make as make_codec
from common.wire.messages import Acknowledgement, Gradient, Trajectory, Welcome
from learner.build import build
from learner.core import LearnerCore
from learner.effects import Effect, Record, SaveCheckpoint, Send
from learner.record.checkpoint import CheckpointWriter
from learner.record.gradient_log import SEGMENT_BYTES, GradientLog
from learner.record.run_lock import LockedRun, create, resume
from tests.helpers.run import gradient_of, hello_of, settings_of, welcome_of

RECORDED = (
    *("network.hidden=[8]", "environment.num_envs=2", "algorithm.rollout_length=4", "record.gradients=true"),
    *("exchange.codec=none", "exchange.entropy_coder=none", "checkpoint.every_seconds=0", "exchange.coalesce=4"),
)
NORM = 0.4
"""Norm of gradients, which an actor would clip."""
BODIES = 3
"""Number of different trajectories, which are sent again and again."""


class RecordedRun:
    """Carries out a run's effects as the daemon does; `verdicts`: actor, sequence and verdict of all answers."""

    def __init__(self, path: Path, *assignments: str, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.settings = settings_of(*RECORDED, *assignments)
        self.folder = RunFolder(path)
        self.agreeing = False
        """Whether all gradients point in about the same direction."""
        self.verdicts: list[tuple[str, int, str]] = []
        self.core: LearnerCore
        self.weights_at: dict[int, bytes] = {}
        self._segment_bytes = segment_bytes
        self._locked: LockedRun | None = None
        self._now = 10.0
        self._generator = torch.Generator().manual_seed(0)
        self._sequences: dict[str, int] = {}
        self._last: dict[str, tuple[Gradient | Trajectory, bytes]] = {}
        self._trajectories: list[tuple[Trajectory, bytes]] = []
        self.start()

    def start(self, settings: Settings | None = None) -> None:
        """Starts a new run, or resumes the existing one from its newest checkpoint; unsaved state is lost."""
        self.die()
        settings = settings or self.settings
        new = not self.folder.run_file.exists()
        self._locked = create(self.folder.path, settings) if new else resume(self.folder.path, settings)
        newest = self.folder.newest()
        self.core = build(self._locked, None if newest is None else newest.read(), 5556, self._now)
        spec = self.core.run.spec
        self._locked.begin(spec.settings)
        keep, record = spec.settings.checkpoint, spec.settings.record
        self._checkpoints = CheckpointWriter(self.folder, keep=keep.keep, best=keep.best, layout=spec.layout)
        self.log = GradientLog(self.folder.gradients, keep_mib=record.keep_mib, segment_bytes=self._segment_bytes)
        self._welcomes: dict[str, Welcome] = {}
        self._begun = self.version
        self._do(self.core.begin())

    def die(self) -> None:
        """Ends the learner as kill -9 does: nothing is saved or flushed."""
        if self._locked is not None:
            self.log.close()
            self._locked.close()
            self._locked = None

    @property
    def version(self) -> int:
        return self.core.run.stats.counters.version

    def join(self, *actors: str) -> None:
        for actor in actors:
            self._do(self.core.handle(self._now, actor.encode(), hello_of(actor), None))

    def send(self, actor: str = "a", lag: int = 0, again: bool = False, flipped: bool = False) -> None:
        """Sends a contribution computed with weights `lag` versions old, but not older than the epoch's first.

        `again`: sends the last one again unchanged, even in a later epoch; `flipped`: with the opposite sign.
        """
        if actor not in self._welcomes:
            self.join(actor)
        if not again:
            sequence = self._sequences.get(actor, 0) + 1
            self._sequences[actor] = sequence
            self._last[actor] = self._contribution(actor, sequence, max(self._begun, self.version - lag), flipped)
        if actor in self._last:
            header, body = self._last[actor]
            self._do(self.core.handle(self._now, actor.encode(), header, memoryview(body)))

    def flush(self) -> None:
        self._now += 0.01
        self._do(self.core.flush(self._now))

    def save(self) -> None:
        self._do([self.core._checkpoints.begin(self._now)])

    def steps(self, count: int, *actors: str, lag: int = 0) -> None:
        """Takes optimizer steps, each with a contribution of each of the actors."""
        for _ in range(count):
            for actor in actors or ("a",):
                self.send(actor, lag)
            self.flush()

    def end(self) -> None:
        """Ends the run: saves a checkpoint, and unlocks the folder."""
        self._do(self.core.stop(self._now))
        self.die()

    def _contribution(
        self, actor: str, sequence: int, version: int, flipped: bool
    ) -> tuple[Gradient | Trajectory, bytes]:
        spec, welcome = self.core.run.spec, self._welcomes[actor]
        fields = {"run": spec.run, "epoch": spec.epoch, "model": spec.model, "codec": welcome.codec}
        header = gradient_of(sequence, version, **fields, steps=8, emulator_frames=8)
        counted = spec.counted
        if counted:
            moments = [(8, [float(sequence)] * counted, [2.0 * sequence] * counted)]
            header = msgspec.structs.replace(header, moments=moments)
        if spec.settings.exchange.kind == "gradients":
            gradient = torch.randn(spec.parameters, generator=self._generator)
            gradient += self.agreeing
            gradient *= (-NORM if flipped else NORM) / gradient.norm()
            codec = make_codec(welcome.codec, spec.parameters, spec.settings.exchange.top_k)
            return header, codec.encode(gradient.numpy())
        played, body = self._played(welcome)[sequence % BODIES]
        changed = {name: getattr(header, name) for name in ("run", "epoch", "sequence", "version", "codec", "model")}
        return msgspec.structs.replace(played, **changed), body

    def _played(self, welcome: Welcome) -> list[tuple[Trajectory, bytes]]:
        """Returns rollouts of an actor, played on the weights that the learner had at the first call."""
        if not self._trajectories:
            spec = self.core.run.spec
            weights = make_codec("none", spec.parameters).encode(self.core._weights.vector.numpy())
            given = welcome_of(model=spec.model, codec=welcome.codec, seed=5)
            player = build_player(given, spec.settings, weights, Outbox())
            try:
                for number in range(BODIES):
                    assert player.advance(math.inf)
                    summary, body = player.pack(number + 1)
                    plain = gradient_of(1, steps=summary.steps, emulator_frames=summary.emulator_frames)
                    fields = {name: getattr(plain, name) for name in Trajectory.__struct_fields__}
                    self._trajectories.append((Trajectory(**fields), bytes(body)))
            finally:
                player.close()
        return self._trajectories

    def _note(self) -> None:
        self.weights_at[self.version] = self.core._weights.vector.numpy().tobytes()

    def _do(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Record():
                    self.log.append(effect.entry, effect.body or b"")
                case SaveCheckpoint():
                    if (sync := self.log.saved(effect.version)) is not None:
                        sync()
                    self._checkpoints.write(effect)
                case Send(message=Welcome()):
                    assert isinstance(effect.message, Welcome)
                    self._welcomes[effect.peer.decode()] = effect.message
                case Send(message=Acknowledgement()):
                    assert isinstance(effect.message, Acknowledgement)
                    self.verdicts.append((effect.peer.decode(), effect.message.sequence, effect.message.verdict))
        self._note()
