"""A learner's core with a sum of gradients that only notes its calls; settings are given as on the command line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar, cast

import numpy as np
import torch

from common.errors import CodecError
from common.rl.episode import Episode
from common.rl.normalization import Normalization
from common.rl.rewards import UNCHANGED
from common.settings.codec_names import NAMES
from common.settings.sections import Optimizer, Settings
from common.settings.toml import override
from common.wire.bodies.delta import DeltaFormat
from common.wire.bodies.weights import WeightsFormat
from common.wire.frames import Buffer
from common.wire.messages import PROTOCOL, AnyMessage, Gradient, Hello, Role, Welcome
from learner.core import LearnerCore
from learner.effects import Effect, Log, Send
from learner.exchange.actions import ActionExchange
from learner.exchange.base import Exchange
from learner.exchange.gradients import GradientExchange
from learner.exchange.trajectories import TrajectoryExchange
from learner.parameters.gradient_sum import GradientSum
from learner.parameters.optimizers import make as make_optimizer
from learner.parameters.step_result import StepResult
from learner.parameters.weights import Weights
from learner.peers import Peers
from learner.run import Run, RunSpec
from learner.run_stats import Counters, RunStats
from learner.save_schedule import SaveSchedule

M = TypeVar("M", bound=AnyMessage)

MODEL = "0123456789abcdef"
CODEC = "none"
"""The codec that is agreed with actors on other hosts if `ONE_CODEC` is in the settings."""
ONE_CODEC = ("exchange.codec=none", "exchange.entropy_coder=none")
BAD = b"bad"
"""A gradient's body that does not decode."""


COARSE_AFTER = 3
"""Number of steps after a keyframe for which its deltas are not coarse yet."""


class NotedSum(GradientSum):
    """Notes additions (gradients or rollouts) and steps. The second weight is the version, so that bodies show it.

    The first weight is so large that a delta is coarse once COARSE_AFTER versions lie between it and its keyframe.
    """

    def __init__(self, version: int = 0, normalization: Normalization = UNCHANGED) -> None:
        vector = torch.tensor([2**11 / 254 * (COARSE_AFTER + 0.1), version])
        optimizer = make_optimizer(Optimizer(kind="sgd"), vector, 0)
        super().__init__(Weights(optimizer, normalization.extras(), normalization))
        self.largest_lag: int | None = None
        self.added: list[tuple[bytes, str, float]] = []
        """Additions since the last step: body, codec, weight."""
        self.lags: list[int] = []
        """Lags of all additions."""
        self.steps: list[tuple[list[tuple[bytes, str, float]], float, int]] = []
        """The additions to each step, its scale and its frames."""
        self.learnt: dict[str, float] = {}
        """The statistics that each step returns."""
        self.left_out: dict[int, str] = {}
        """The additions that the next step leaves out."""
        self.to_blame = True
        self.troubles: list[str] = []
        """Troubles of the device."""

    @property
    def version(self) -> int:
        return int(self.weights.vector[1])

    @property
    def reach(self) -> int | None:
        return self.largest_lag

    def add(
        self,
        body: Buffer,
        codec: str = "",
        *,
        weight: float,
        count: int = 1,
        lag: int = 0,
        source: str = "",
        summed: bool = False,
    ) -> None:
        if bytes(body) == BAD:
            raise CodecError("not finite (NaN or infinity)")
        self.added.append((bytes(body), codec, weight))
        self.lags.append(lag)

    def step(self, *, scale: float, frames: int) -> StepResult:
        self.steps.append((self.added, scale, frames))
        self.added = []
        self.weights.vector[1] += 1
        left_out, self.left_out = self.left_out, {}
        return StepResult(self.learnt, left_out, self.to_blame)

    is_over = True
    """Whether the step that has begun can be finished."""

    def begin(self, *, scale: float, frames: int) -> None:
        self.begun = self.step(scale=scale, frames=frames)

    def finish(self) -> StepResult:
        return self.begun


class Unpacked:
    """A trajectory format whose rollouts are the bodies themselves."""

    def max_bytes(self, count: int) -> int:
        return 1000 * count

    def unpack(self, body: Buffer, codec: str, count: int) -> bytes:
        return bytes(body)


def body_of(version: int) -> bytes:
    """Returns the body of a version's weights, as fp32."""
    weights = NotedSum(version).weights
    return WeightsFormat("fp32", 2).pack(weights.vectors(), weights.extras)


def version_of(body: Buffer) -> int:
    """Returns the version of the weights (fp32) in a body."""
    vector = np.zeros(2, np.float32)
    WeightsFormat("fp32", 2).unpack(body, [vector], np.zeros(0, np.float32))
    return int(vector[1])


def version_of_delta(body: Buffer, keyframe: int) -> int:
    """Returns the version that a delta makes of a keyframe; raises CodecError for a delta of another keyframe."""
    vector = np.zeros(2, np.float32)
    DeltaFormat(2).unpack(body, keyframe, NotedSum(keyframe).weights.vector.numpy(), [vector], np.zeros(0, np.float32))
    return round(float(vector[1]))


def settings_of(*assignments: str) -> Settings:
    """Returns settings with these assignments, `section.key=value` each."""
    return override(Settings(), assignments)


def spec_of(settings: Settings, *, run: str = "a-run", epoch: int = 1, counted: int = 0, longest: int = 0) -> RunSpec:
    return RunSpec(
        run=run,
        epoch=epoch,
        settings=settings,
        model=MODEL,
        parameters=2,
        device="cpu",
        host="gpu-box",
        run_dir="runs/x",
        weights_port=5556,
        weights_format="fp32",
        counted=counted,
        longest_episode=longest,
    )


def run_of(
    settings: Settings,
    *,
    epoch: int = 1,
    counters: Counters | None = None,
    counted: int = 0,
    longest: int = 0,
    now: float = 0.0,
) -> Run:
    """Returns a run without peers; `counters` are those of a checkpoint."""
    stats = RunStats(counters or Counters(), settings, now)
    saves = SaveSchedule(settings.checkpoint.every_seconds, now, None)
    return Run(spec_of(settings, epoch=epoch, counted=counted, longest=longest), Peers(), stats, saves)


def exchange_of(run: Run, noted: GradientSum, server: Any = None) -> Exchange:
    """Returns the exchange of the run's settings; `server` chooses the actions where the learner does."""
    settings, parts = run.spec.settings, cast(Any, noted)
    if settings.exchange.kind == "actions":
        return ActionExchange(run, parts, server)
    if settings.exchange.kind == "trajectories":
        return TrajectoryExchange(run, parts, cast(Any, Unpacked()))
    return GradientExchange(run, noted)


def core_of(run: Run, noted: GradientSum, now: float, server: Any = None) -> LearnerCore:
    """Returns a learner's core around these parts."""
    return LearnerCore(run, noted.weights, exchange_of(run, noted, server), now)


def learner_of(
    *assignments: str, now: float = 0.0, epoch: int = 1, counters: Counters | None = None, longest: int = 0
) -> tuple[LearnerCore, NotedSum]:
    """Returns a learner's core for these settings and ONE_CODEC, and its sum; `counters` are those of a checkpoint."""
    settings = settings_of(*ONE_CODEC, *assignments)
    counters = counters or Counters()
    noted = NotedSum(counters.version)
    return core_of(run_of(settings, epoch=epoch, counters=counters, longest=longest, now=now), noted, now), noted


def attend(core: LearnerCore, begin: float, end: float, *, heard_all: bool = True) -> list[Effect]:
    """Ticks the learner every second from `begin` to `end`; returns its effects."""
    effects, now = [], begin
    while now <= end:
        effects += core.tick(now, heard_all=heard_all)
        now += 1.0
    return effects


def hello_of(name: str = "a", role: Role = "actor", **changed: Any) -> Hello:
    fields: dict[str, Any] = {
        "protocol": PROTOCOL,
        "role": role,
        "name": name,
        "incarnation": f"{name}-1",
        "host": "lab",
        "pid": 7,
        "codecs": list(NAMES),
    }
    return Hello(**(fields | changed))


def gradient_of(sequence: int = 1, version: int = 0, **changed: Any) -> Gradient:
    fields: dict[str, Any] = {
        "run": "a-run",
        "epoch": 1,
        "sequence": sequence,
        "version": version,
        "model": MODEL,
        "codec": CODEC,
        "steps": 20,
        "emulator_frames": 80,
    }
    changed["episodes"] = [Episode(*figures) for figures in changed.get("episodes", [])]
    return Gradient(**(fields | changed))


def welcome_of(**changed: Any) -> Welcome:
    fields: dict[str, Any] = {
        "run": "a-run",
        "epoch": 1,
        "heartbeat_seconds": 2.0,
        "expiry_seconds": 30.0,
        "settings": {"seed": 0},
        "codec": "none",
        "credit": 1,
        "model": MODEL,
        "weights_port": 5556,
        "weights_format": "fp32",
        "version": 10,
        "actors": 2,
    }
    return Welcome(**(fields | changed))


def sent(effects: Iterable[Effect], kind: type[M], peer: bytes | None = None) -> list[M]:
    """Returns the messages of one kind among the effects, to one peer or to all."""
    return [
        effect.message
        for effect in effects
        if isinstance(effect, Send) and isinstance(effect.message, kind) and peer in (None, effect.peer)
    ]


def logged(effects: Iterable[Effect]) -> list[str]:
    """Returns `level: text` of each logged line."""
    return [f"{effect.level}: {effect.text}" for effect in effects if isinstance(effect, Log)]
