"""A learner's core with a store that only takes notes; settings are given as on the command line."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, TypeVar

import msgspec

from common.errors import CodecError, RefusedError
from common.rl.episode import Episode
from common.rl.moments import Moments
from common.settings.codec_names import NAMES
from common.settings.sections import Settings
from common.settings.toml import override
from common.wire.bodies.broadcast import KEYFRAME
from common.wire.frames import Buffer
from common.wire.messages import PROTOCOL, AnyMessage, Gradient, Hello, Role, Welcome
from learner.core import LearnerCore
from learner.effects import Effect, Log, Send
from learner.run_spec import Plan
from learner.run_stats import Counters, Ledger
from learner.scaling import Scaler

M = TypeVar("M", bound=AnyMessage)

MODEL = "0123456789abcdef"
CODEC = "none"
BAD = b"bad"
"""A gradient's body that does not decode."""


class NotedStore:
    """Notes what was added and stepped. The weights' body is `form:version`, behind the keyframe's if it is a delta."""

    def __init__(self, version: int = 0) -> None:
        self.version = version
        self.reach: int | None = None
        self.added: list[tuple[bytes, str, float]] = []
        """Since the last step: body, codec, weight."""
        self.observed: list[int] = []
        """Steps whose moments came with each gradient."""
        self.lags: list[int] = []
        """Of everything ever added."""
        self.steps: list[tuple[list[tuple[bytes, str, float]], float, int]] = []
        """What went into each step, its scale and its frames."""
        self.learnt: dict[str, float] = {}
        """What each step tells of the loss."""
        self.keyframes: list[int] = []
        """Versions; another is due after three steps."""

    def add(self, body: Buffer, codec: str, weight: float, count: int = 1, lag: int = 0) -> None:
        if bytes(body) == BAD:
            raise CodecError("not finite (NaN or infinity)")
        self.added.append((bytes(body), codec, weight))
        self.lags.append(lag)

    def observe(self, moments: Moments) -> None:
        self.observed.append(moments.count)

    def step(self, *, scale: float, frames: int) -> dict[str, float]:
        self.steps.append((self.added, scale, frames))
        self.added = []
        self.version += 1
        return self.learnt

    def body(self, form: str) -> bytes:
        return f"{form}:{self.version}".encode()

    def keyframe(self, form: str, version: int) -> bytes:
        assert version == self.version
        self.keyframes.append(version)
        return self.body(form)

    def delta(self) -> tuple[bytes, bool]:
        return KEYFRAME.pack(self.keyframes[-1]) + self.body("delta"), self.version - self.keyframes[-1] > 3


def choose_codec(offered: Collection[str], loopback: bool) -> str:
    """The one codec of these runs, or none at all."""
    if CODEC not in offered:
        raise RefusedError(f"no common codec: this run takes {CODEC}")
    return CODEC


def settings_of(*assignments: str) -> Settings:
    """`section.key=value` each."""
    return override(Settings(), assignments)


def plan_of(settings: Settings, *, run: str = "a-run", epoch: int = 1) -> Plan:
    return Plan(
        run=run,
        epoch=epoch,
        settings=settings,
        plain=msgspec.to_builtins(settings),
        network="dense",
        model=MODEL,
        parameters=3,
        device="cpu",
        host="gpu-box",
        run_dir="runs/x",
        weights_port=5556,
        weights_format="fp32",
    )


def learner_of(
    *assignments: str,
    now: float = 0.0,
    epoch: int = 1,
    counters: Counters | None = None,
) -> tuple[LearnerCore, NotedStore]:
    """A learner's core for these settings, and its store; `counters` are those of a checkpoint."""
    settings = settings_of(*assignments)
    counters = counters or Counters()
    store = NotedStore(counters.version)
    scaler = Scaler(settings.scaling, counters.last_addition)
    ledger = Ledger(counters, settings.limits.window, scaler.start(), now)
    plan = plan_of(settings, epoch=epoch)
    return LearnerCore(plan, store, ledger, scaler, choose_codec, now), store


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
    """The messages of one kind among what is to be done, to one peer or to all."""
    return [
        effect.message
        for effect in effects
        if isinstance(effect, Send) and isinstance(effect.message, kind) and peer in (None, effect.peer)
    ]


def logged(effects: Iterable[Effect]) -> list[str]:
    """`level: text` of each line."""
    return [f"{effect.level}: {effect.text}" for effect in effects if isinstance(effect, Log)]
