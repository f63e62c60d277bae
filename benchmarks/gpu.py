"""A learner on a GPU, and whether it learns what one on the CPU does: `python -m benchmarks gpu [--device cuda]`.

The learner's core is given what actors would send, in this process, without sockets: first ten optimizer steps of each
exchange on the device and on the CPU, whose weights must agree; then as many messages as it takes for some seconds.
Frames are those learnt from. "waits" is the part of the time in which every actor waited for the learner and it for
its device. `--device cpu` runs the same, in small.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import tables
from common.rl.distributions.base import Floats
from common.rl.rollout import Rollout
from common.run.folder import RunFolder, RunRecord
from common.settings.sections import Settings
from common.settings.toml import override
from common.wire.bodies.observations import ObservationCodec, StepBatch, group_sizes, unstacked
from common.wire.bodies.trajectory import TrajectoryFormat
from common.wire.codecs.registry import make as make_codec
from common.wire.messages import PROTOCOL, Acknowledgement, Act, Gradient, Hello, Observe, Refused, Trajectory
from learner.build import assemble, set_arithmetic
from learner.core import LearnerCore
from learner.effects import Effect, Send

TOLERANCE = 1e-4
EQUAL_STEPS = 10
BODIES = 4
"""Different ones; each actor sends them in turn."""
NETWORKS = ("conv-a3c", "conv-impala")
EXCHANGES = ("trajectories", "actions")


class Fleet:
    """Actors that have been played already: what each sends is made before, and sent when it is answered."""

    def __init__(self, settings: Settings, actors: int) -> None:
        record = RunRecord(run="benchmark", created="", epoch=1, a3cd="")
        self.now = time.monotonic()
        parts = assemble(RunFolder(Path()), record, settings, None, now=self.now)
        self.run, self.weights = parts.run, parts.weights
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
        """Bodies of a kind of contribution; of observations, those of a group's first step and of later ones."""
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
        """Whoever was answered sends; the learner does what is due. Returns whether there was anything to send."""
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
                raise SystemExit(f"{effect.peer.decode()} was refused: {effect.message.reason}")
            if isinstance(effect.message, Acknowledgement):
                if effect.message.verdict != "applied":
                    raise SystemExit(f"not applied, but {effect.message.verdict}: {effect.message.why}")
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
    """A rollout whose frames are stacked as an environment's are."""
    channels = observation.shape[0]
    frames = rng.integers(256, size=(steps + channels, copies, *observation.shape[1:]), dtype=np.uint8)
    shape = (steps, copies)
    return Rollout(
        observations=np.stack([frames[t : t + channels].swapaxes(0, 1) for t in range(steps + 1)]),
        actions=rng.integers(action.width, size=shape),
        rewards=rng.standard_normal(shape, np.float32),
        terminated=rng.random(shape) < 0.01,
        valid=np.ones(shape, np.bool_),
        behaviour_log_probs=np.full(shape, -np.log(action.width), np.float32),
    )


def settings_of(kind: str, network: str, device: str, *more: str) -> Settings:
    return override(
        Settings(),
        [
            "environment.id='benchmarks.pictures:Pictures-v0'", "environment.frame_stack=4",
            f"exchange.kind='{kind}'", f"network.kind='{network}'", f"optimizer.device='{device}'",
            "exchange.entropy_coder='none'", "staleness.refuse_factor=0", "exchange.broadcast_ms=5", *more,
        ],
    )  # fmt: skip


def equal(device: str, kind: str) -> float:
    """The largest difference of the weights after the same steps on both."""
    return float(np.abs(learnt("cpu", kind) - learnt(device, kind)).max())


def learnt(device: str, kind: str) -> Floats:
    """The weights after some steps; of one actor, so that the batches are the same on every device."""
    small = ("environment.num_envs=4", "exchange.groups=1", "algorithm.rollout_length=5", "optimizer.kind='sgd'")
    fleet = Fleet(settings_of(kind, "conv-a3c", device, *small), 1)
    transport: Any = fleet.weights.transport
    transport.mark = lambda: lambda: True  # each step is waited for: who acts has the newest weights, as on a CPU
    while fleet.version < EQUAL_STEPS:
        fleet.advance()
    return fleet.weights.vectors()[0]


def speed(given: argparse.Namespace, kind: str, network: str) -> list[Any]:
    fleet = Fleet(settings_of(kind, network, given.device, f"environment.num_envs={given.copies}"), given.actors)
    on_gpu = fleet.weights.vector.device.type == "cuda"
    usage, waits = [], 0
    until = time.monotonic() + given.warm_up
    while time.monotonic() < until:
        fleet.advance()
    begun, frames, version, turns = time.monotonic(), fleet.run.stats.counters.frames, fleet.version, 0
    looked = begun
    while (now := time.monotonic()) < begun + given.seconds:
        waits += not fleet.advance()
        turns += 1
        if on_gpu and now > looked + 0.5:
            looked = now
            usage.append(busy())
    seconds = time.monotonic() - begun
    frames, steps = fleet.run.stats.counters.frames - frames, fleet.version - version
    used = [one for one in usage if one is not None]
    memory = torch.cuda.max_memory_allocated() / 2**20 if on_gpu else None
    return [
        f"{network}, {kind}", given.actors, frames / seconds, steps / seconds, frames / max(1, steps),
        100 * waits / max(1, turns), float(np.mean(used)) if used else None, memory,
    ]  # fmt: skip


def busy() -> float | None:
    """Per cent of the time that the GPU computed; None where nobody tells."""
    try:
        return float(torch.cuda.utilization())
    except (ModuleNotFoundError, RuntimeError):
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--actors", type=int, default=16)
    parser.add_argument("--copies", type=int, default=16, help="environments of each actor")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--warm-up", type=float, default=5.0)
    given = parser.parse_args()
    if given.device.startswith("cuda") and not torch.cuda.is_available():
        sys.exit(f"no CUDA device here (torch {torch.__version__}): --device cpu runs the same, in small")
    if given.device == "cpu":
        given.actors, given.copies, given.seconds, given.warm_up = 2, 4, min(given.seconds, 1.0), 0.2
    set_arithmetic()
    tables.machine()
    if given.device != "cpu":
        print(torch.cuda.get_device_name(given.device))
    differences = {kind: equal(given.device, kind) for kind in ("gradients", *EXCHANGES)}
    title = f"Largest difference of a weight after {EQUAL_STEPS} steps on {given.device} and on the CPU"
    tables.show(title, ("exchange", "difference"), [(kind, f"{one:.1e}") for kind, one in differences.items()])
    columns = ("learner", "actors", "frames/s", "steps/s", "frames a step", "waits %", "GPU busy %", "MiB at most")
    rows = [speed(given, kind, network) for network in NETWORKS for kind in EXCHANGES]
    tables.show(f"On {given.device}, {given.copies} environments an actor", columns, rows)
    if max(differences.values()) > TOLERANCE:
        sys.exit(f"the weights differ by more than {TOLERANCE:g}")


if __name__ == "__main__":
    main()
