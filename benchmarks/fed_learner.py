"""A learner's core fed with the messages of a fleet, in one process and without sockets."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from common.rl.rollout import Rollout
from common.run.folder import RunFolder, RunRecord
from common.settings.sections import Settings
from common.settings.toml import override
from common.wire.bodies.observations import ObservationCodec, StepBatch, group_sizes, unstacked
from common.wire.bodies.trajectory import TrajectoryFormat
from common.wire.codecs.registry import make as make_codec
from common.wire.messages import PROTOCOL, Acknowledgement, Act, Gradient, Hello, Observe, Refused, Trajectory
from learner.build import assemble
from learner.core import LearnerCore
from learner.effects import Effect, Send

BODIES = 4
"""Number of different bodies, which each actor sends in turn."""


class Fleet:
    """Actors whose contributions are made in advance; each sends the next when the last is answered."""

    def __init__(self, settings: Settings, actors: int) -> None:
        record = RunRecord(run="benchmark", created="", epoch=1, a3cd="")
        self.now = time.monotonic()
        parts = assemble(RunFolder(Path()), record, settings, None, now=self.now)
        self.run, self.weights, self.exchange = parts.run, parts.weights, parts.exchange
        self.settings = parts.run.spec.settings
        self.core = LearnerCore(parts.run, parts.weights, parts.exchange, self.now)
        self._bodies = list(self._made())
        self._sent = dict.fromkeys(self._keys(actors), 0)
        self._ready = list(self._sent)
        for number in range(actors):
            name = f"actor-{number}"
            hello = Hello(
                protocol=PROTOCOL, role="actor", name=name, incarnation=name, host="here", pid=1,
                codecs=["none", "none+lz4"],
            )  # fmt: skip
            self.core.handle(self.now, name.encode(), hello, None)

    def _keys(self, actors: int) -> list[tuple[bytes, int]]:
        groups = self.settings.exchange.groups if self.settings.exchange.kind == "actions" else 1
        return [(f"actor-{number}".encode(), group) for number in range(actors) for group in range(groups)]

    def _made(self) -> Iterator[list[bytes]]:
        """Yield lists of bodies: one contribution each, or observations of a group's first step and of a later one."""
        spec, settings, rng = self.run.spec, self.settings, np.random.default_rng(0)
        observation, action = spaces(settings)
        copies, steps = settings.environment.num_envs, settings.algorithm.rollout_length
        for _ in range(BODIES):
            if settings.exchange.kind == "gradients":
                noise = rng.standard_normal(spec.parameters, np.float32)
                yield [make_codec("none", spec.parameters).encode(noise * np.float32(0.1 / np.linalg.norm(noise)))]
            elif settings.exchange.kind == "trajectories":
                packing = TrajectoryFormat(settings, observation, action, 0)
                yield [packing.pack([played(rng, observation, action, steps, copies)], "none")]
            else:
                count = group_sizes(copies, settings.exchange.groups)[0]
                one = unstacked(observation, settings.environment.frame_stack)
                codec = ObservationCodec(one, action, count)
                frames = rng.integers(256, size=(count, *one.shape), dtype=np.uint8)
                seen = StepBatch(frames, rng.random(count).astype(np.float32), *(rng.random((2, count)) < 0.9))
                yield [codec.pack_seen(seen, begins=begins) for begins in (True, False)]

    def advance(self) -> bool:
        """Send the next message of each answered actor, and let the learner work. Return whether anything was sent."""
        ready, self._ready = self._ready, []
        self.now = time.monotonic()
        for key in ready:
            message, body = self._next(key)
            self._take(self.core.handle(self.now, key[0], message, body))
        self._take(self.core.answer(self.now))
        self._take(self.core.flush(self.now))
        return bool(ready)

    def _next(self, key: tuple[bytes, int]) -> tuple[Any, bytes]:
        spec, settings = self.run.spec, self.settings
        self._sent[key] += 1
        number = self._sent[key]
        bodies = self._bodies[number % BODIES]
        frames = settings.environment.num_envs * settings.algorithm.rollout_length
        if settings.exchange.kind == "actions":
            begins = number == 1
            steps = 0 if begins else group_sizes(settings.environment.num_envs, settings.exchange.groups)[key[1]]
            message = Observe(
                run=spec.run, epoch=1, group=key[1], step=number, begins=begins, steps=steps, emulator_frames=steps
            )
            return message, bodies[0 if begins else 1]
        kind: Any = Gradient if settings.exchange.kind == "gradients" else Trajectory
        header = kind(
            run=spec.run, epoch=1, sequence=number, version=self.version, model=spec.model, codec="none",
            steps=frames, emulator_frames=frames,
        )  # fmt: skip
        return header, bodies[0]

    def _take(self, effects: list[Effect]) -> None:
        for effect in effects:
            if not isinstance(effect, Send):
                continue
            if isinstance(effect.message, Refused):
                raise RuntimeError(f"{effect.peer.decode()} was refused: {effect.message.reason}")
            if isinstance(effect.message, Acknowledgement):
                if effect.message.verdict != "applied":
                    raise RuntimeError(f"not applied, but {effect.message.verdict}: {effect.message.why}")
                self._ready.append((effect.peer, 0))
            elif isinstance(effect.message, Act):
                self._ready.append((effect.peer, effect.message.group))

    @property
    def version(self) -> int:
        return self.run.stats.counters.version


def spaces(settings: Settings) -> tuple[Any, Any]:
    from common.rl.environments.make import make

    environments = make(settings.environment, num_envs=1, seed=0)
    environments.close()
    return environments.observation, environments.action


def played(rng: np.random.Generator, observation: Any, action: Any, steps: int, copies: int) -> Rollout:
    """Return a random rollout; frames are stacked as an environment stacks them."""
    shape = (steps, copies)
    seen: Any
    if observation.kind == "pixels":
        channels = observation.shape[0]
        frames = rng.integers(256, size=(steps + channels, copies, *observation.shape[1:]), dtype=np.uint8)
        seen = np.stack([frames[t : t + channels].swapaxes(0, 1) for t in range(steps + 1)])
    else:
        seen = rng.standard_normal((steps + 1, copies, *observation.shape), np.float32)
    return Rollout(
        observations=seen,
        actions=rng.integers(action.width, size=shape),
        rewards=rng.standard_normal(shape, np.float32),
        terminated=rng.random(shape) < 0.01,
        valid=np.ones(shape, np.bool_),
        behaviour_log_probs=np.full(shape, -np.log(action.width), np.float32),
    )


PICTURES = ("environment.id='benchmarks.pictures:Pictures-v0'", "environment.frame_stack=4")
CARTPOLE = ("environment.id='CartPole-v1'",)


def settings_of(kind: str, network: str, device: str, *more: str) -> Settings:
    return override(
        Settings(),
        [
            *(CARTPOLE if network == "dense" else PICTURES), f"exchange.kind='{kind}'", f"network.kind='{network}'",
            f"optimizer.device='{device}'",
            "exchange.entropy_coder='none'", "staleness.refuse_factor=0", "exchange.broadcast_ms=5", *more,
        ],
    )  # fmt: skip
