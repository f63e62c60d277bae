"""What is fuzzed: every reader of bytes from outside, and the cores under sequences of valid messages.

Each target takes any bytes and raises nothing: the errors that its reader may raise are caught here, by name.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from common.errors import (
    A3cdError,
    CodecError,
    ConfigurationError,
    DamagedCheckpointError,
    DamagedRecordError,
    WireError,
)
from common.host.addresses import Address
from common.host.security import allowed
from common.host.security.credential import Credential
from common.rl.action_spec import ActionSpec, discrete
from common.rl.moments import Moments
from common.rl.observation_spec import ObservationSpec
from common.run.folder import CheckpointPaths
from common.settings import toml
from common.settings.codec_names import NAMES
from common.settings.sections import Algorithm, Environment, Settings
from common.wire.bodies.broadcast import Broadcast
from common.wire.bodies.delta import DeltaFormat
from common.wire.bodies.observations import ObservationCodec
from common.wire.bodies.trajectory import TrajectoryFormat
from common.wire.bodies.weights import WeightsFormat
from common.wire.codecs.registry import make
from common.wire.frames import split, unpack
from common.wire.messages import Message
from deploy.backends import hosts
from learner import authentication
from learner.record import gradient_history
from learner.record import metrics_file as metrics
from learner.record.gradient_log import FRAME, frame_head
from tests.fuzz.choices import Choices
from tests.fuzz.sequences import (
    actor_sequence,
    evaluator_sequence,
    launcher_sequence,
    learner_sequence,
    relay_sequence,
)

SIZE = 300
SPECS = (
    ObservationSpec((3,), "box", 3),
    ObservationSpec((4, 2, 3), "pixels", 24),
    ObservationSpec((), "discrete", 500),
)
ACTIONS = (discrete(300), ActionSpec("multi-discrete", (3, 300), (2,)), ActionSpec("box", shape=(2,), squashed=(True,)))


def header_for_the_learner(data: bytes) -> None:
    with contextlib.suppress(WireError):
        assert isinstance(unpack(data, by_learner=True), Message)


def header_for_a_peer(data: bytes) -> None:
    with contextlib.suppress(WireError):
        assert isinstance(unpack(data), Message)


def frames(data: bytes) -> None:
    choices = Choices(data)
    parts = []
    while choices and len(parts) < 4:
        parts.append(choices.take(choices.byte()))
    with contextlib.suppress(WireError):
        split(parts, by_learner=True)


@cache
def _codec(name: str) -> Any:
    return make(name, SIZE), np.zeros(SIZE, np.float32)


def gradient_body(data: bytes) -> None:
    choices = Choices(data)
    codec, out = _codec(choices.one_of(NAMES))
    with contextlib.suppress(CodecError):
        codec.decode(choices.take(len(data)), out)


@cache
def _trajectories(observation: int, action: int, state: int) -> TrajectoryFormat:
    spec = SPECS[observation]
    environment = Environment(num_envs=3, frame_stack=4 if spec.kind == "pixels" else 1)
    settings = Settings(algorithm=Algorithm(rollout_length=5), environment=environment)
    return TrajectoryFormat(settings, spec, ACTIONS[action], state)


def trajectory_body(data: bytes) -> None:
    choices = Choices(data)
    packing = _trajectories(choices.byte() % 3, choices.byte() % 3, choices.one_of((0, 4)))
    codec, count = choices.one_of(("none", "none+lz4", "none+zstd")), choices.one_of((1, 2, 4))
    with contextlib.suppress(CodecError):
        packing.unpack(choices.take(len(data)), codec, count)


@cache
def _observations(observation: int, action: int) -> ObservationCodec:
    return ObservationCodec(SPECS[observation], ACTIONS[action], 9)


def observations_body(data: bytes) -> None:
    choices = Choices(data)
    codec, begins = _observations(choices.byte() % 3, choices.byte() % 3), choices.one_of((True, False))
    with contextlib.suppress(CodecError):
        codec.read_seen(choices.take(len(data)), begins=begins)


def actions_body(data: bytes) -> None:
    choices = Choices(data)
    codec = _observations(choices.byte() % 3, choices.byte() % 3)
    with contextlib.suppress(CodecError):
        codec.read_actions(choices.take(len(data)))


def weights_body(data: bytes) -> None:
    choices = Choices(data)
    packing = WeightsFormat(choices.one_of(("fp32", "fp16")), 5, 2, 3)
    with contextlib.suppress(CodecError):
        packing.unpack(choices.take(len(data)), list(np.zeros((2, 5), np.float32)), np.zeros(3, np.float32))


def delta_body(data: bytes) -> None:
    choices = Choices(data)
    version, keyframe, extras = choices.byte(), np.zeros(SIZE, np.float32), np.zeros(2, np.float32)
    with contextlib.suppress(CodecError):
        DeltaFormat(SIZE, 1, 2).unpack(choices.take(len(data)), version, keyframe, [np.zeros(SIZE, np.float32)], extras)


def broadcast(data: bytes) -> None:
    with contextlib.suppress(WireError):
        Broadcast.unpack(data)


def moments(data: bytes) -> None:
    choices = Choices(data)
    plains: list[Any] = []
    while choices and len(plains) < 4:
        lengths = choices.byte() % 4, choices.byte() % 4
        plains.append((choices.number(), *([choices.real() for _ in range(length)] for length in lengths)))
    with contextlib.suppress(CodecError):
        merged = Moments.merge_all(plains, 2, rollouts=choices.byte(), steps=choices.number())
        assert not merged.count or merged.usable


def zap_request(data: bytes) -> None:
    """As libzmq makes it: a stranger chooses the mechanism and the 32 bytes of a key."""
    choices = Choices(data)
    request = [b"1.0", b"1", b"a3cd", choices.take(20), b"", choices.one_of((b"CURVE", b"NULL", b"PLAIN"))]
    request += [choices.take(32).ljust(32)] if choices.byte() % 4 else []
    authentication.answer(request, {})


def settings_file(data: bytes) -> None:
    with contextlib.suppress(ConfigurationError):
        toml.parse(data.decode(errors="replace"), "fuzzed")


def one_setting(data: bytes) -> None:
    with contextlib.suppress(A3cdError):
        toml.override(Settings(), [data.decode(errors="replace")])


def invitation(data: bytes) -> None:
    with contextlib.suppress(ConfigurationError):
        Credential.from_invitation("tcp://a:1#" + data.decode(errors="replace"))


def address(data: bytes) -> None:
    with contextlib.suppress(ConfigurationError):
        Address.parse(data.decode(errors="replace"))


def allow_list(data: bytes) -> None:
    with contextlib.suppress(ConfigurationError):
        allowed.parse(data.decode(errors="replace"), Path("allowed"))


def host(data: bytes) -> None:
    with contextlib.suppress(ConfigurationError):
        hosts.parse(data.decode(errors="replace"))


@cache
def _scratch() -> Path:
    memory = Path("/dev/shm")  # a disk would be most of the time
    folder = tempfile.TemporaryDirectory(prefix="a3cd-fuzz-", dir=memory if memory.is_dir() else None)
    _kept.append(folder)
    return Path(folder.name)


_kept: list[Any] = []
"""Gone with the process."""


def checkpoint(data: bytes) -> None:
    choices = Choices(data)
    paths = CheckpointPaths(_scratch())
    paths.state_file.write_bytes(choices.take(choices.byte()))
    paths.weights_file.write_bytes(choices.take(choices.byte()))
    paths.optimizer_file.write_bytes(choices.take(choices.byte()))
    with contextlib.suppress(DamagedCheckpointError):
        paths.read()


def metrics_file(data: bytes) -> None:
    file = _scratch() / "metrics.jsonl"
    file.write_bytes(data)
    metrics.repair(file)
    for row in metrics.rows(file):
        assert isinstance(row, dict)


def gradient_record(data: bytes) -> None:
    """Frames whose checksums are right, though what they hold is anything, and bytes that are no frame."""
    choices = Choices(data)
    file = _scratch() / "000001-000001.log"
    with file.open("wb") as log:
        while choices:
            entry, body = choices.take(choices.byte()), choices.take(choices.byte() % 16)
            head = frame_head(entry, body) if choices.byte() % 8 else choices.take(FRAME.size)
            log.write(head + entry + body)
    with contextlib.suppress(DamagedRecordError):
        for _ in gradient_history.frames(file):
            pass


TARGETS: dict[str, Callable[[bytes], None]] = {
    target.__name__: target
    for target in (
        header_for_the_learner,
        header_for_a_peer,
        frames,
        gradient_body,
        trajectory_body,
        observations_body,
        actions_body,
        weights_body,
        delta_body,
        broadcast,
        moments,
        zap_request,
        settings_file,
        one_setting,
        invitation,
        address,
        allow_list,
        host,
        checkpoint,
        metrics_file,
        gradient_record,
        learner_sequence,
        actor_sequence,
        evaluator_sequence,
        launcher_sequence,
        relay_sequence,
    )
}
