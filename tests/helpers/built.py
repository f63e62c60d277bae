"""A learner's core as `learner.build` makes it, without sockets: steps of its own, its weights and its checkpoints."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import torch

from common.run.folder import Checkpoint, RunFolder
from common.wire.codecs.registry import make as make_codec
from common.wire.messages import Pull, Welcome
from learner.core import LearnerCore
from learner.effects import SaveCheckpoint, Send
from learner.parameters.weights import Weights
from learner.record.checkpoint import CheckpointWriter
from tests.helpers.run import gradient_of, hello_of, sent

SMALL = ("network.hidden=[8]", "environment.num_envs=2", "limits.window=3")
PICTURES = ("environment.id=ALE/Pong-v5", "environment.frame_size=36", "environment.frame_stack=1")
StartCore = Callable[..., LearnerCore]
"""The fixture `start`."""


def train(core: LearnerCore, steps: int = 3) -> None:
    """Some steps with gradients that an actor might have sent."""
    spec, size = core.run.spec, core.run.spec.parameters
    (welcome,) = sent(core.handle(10.0, b"x", hello_of("x"), None), Welcome)
    codec = make_codec(welcome.codec, size)
    generator = torch.Generator().manual_seed(0)
    for sequence in range(1, steps + 1):
        header = gradient_of(
            sequence,
            core.run.stats.counters.version,
            run=spec.run,
            epoch=spec.epoch,
            model=welcome.model,
            codec=welcome.codec,
            emulator_frames=20,
            episodes=[(float(sequence), 10, 0.1)],
            moments=[(20, [float(sequence)] * counted, [2.0] * counted)] if (counted := spec.counted) else [],
        )
        core.handle(11.0, b"x", header, codec.encode((0.01 * torch.randn(size, generator=generator)).numpy()))


def weights_of(core: LearnerCore) -> Weights:
    return core._weights


_numbers = itertools.count()


def body_of(core: LearnerCore) -> bytes:
    """Of the weights, as a new actor gets them."""
    name = f"new{next(_numbers)}"
    effects = core.handle(10.0, name.encode(), hello_of(name), None)
    if all(effect.body is None for effect in effects if isinstance(effect, Send)):
        effects += core.handle(11.0, name.encode(), Pull(version=0, whole=True), None)
    (body,) = (effect.body for effect in effects if isinstance(effect, Send) and effect.body is not None)
    return bytes(body)


def checkpoint_of(core: LearnerCore) -> Checkpoint:
    """Through the files, as the daemon writes it."""
    writer = CheckpointWriter(RunFolder(Path(core.run.spec.run_dir)), keep=3, best=True, layout=core.run.spec.layout)
    (save,) = (effect for effect in core.stop(12.0) if isinstance(effect, SaveCheckpoint))
    return writer.write(save).read()
