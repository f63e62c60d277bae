"""The folder of a run: the paths in it, and reading it. Without torch.

settings.toml     the run settings, resolved
run.json          id, date and epoch of the run, and the version of a3cd that created it
checkpoints/N/    weights.safetensors, optimizer.safetensors, state.json; N is the weights' version
metrics.jsonl     one object per line; events/ has the same for TensorBoard; curve.png is the learning curve
summary.json      written when the learner ends
lock              held by the running learner
"""

import logging
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load

from common.errors import ConfigurationError, DamagedCheckpointError
from common.host.modules import bare
from common.settings.sections import Settings
from common.settings.toml import read

_CHECKPOINT_NAME = re.compile(r"\d+(-\d+)?")
_log = logging.getLogger(__name__)


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`run.json`."""

    run: str
    """16 hexadecimal digits."""
    created: str
    """ISO 8601, UTC."""
    epoch: int
    """1 at first, raised by one whenever a learner resumes the run."""
    a3cd: str
    """The version of a3cd that created the folder."""


class CheckpointState(msgspec.Struct, frozen=True, kw_only=True):
    """`state.json` of a checkpoint."""

    version: int
    """Version of the weights: optimizer steps taken."""
    score: float | None
    """Mean return, by which the best checkpoint is chosen; None before the first."""
    state: dict[str, Any]
    """The rest of the learner's state: counters, model hash and so on."""
    checksums: dict[str, int]
    """CRC-32 of the other files, by name."""


@dataclass(frozen=True)
class Checkpoint:
    version: int
    score: float | None
    weights: NDArray[np.float32]
    """(parameters,): the network's parameters in one vector."""
    optimizer: dict[str, NDArray[Any]]
    state: dict[str, Any]


class CheckpointPaths:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.weights_file = folder / "weights.safetensors"
        """One float32 vector named `weights`."""
        self.optimizer_file = folder / "optimizer.safetensors"
        self.state_file = folder / "state.json"

    @property
    def order(self) -> tuple[int, int]:
        """Sorts checkpoints by version, then by the order in which they were written."""
        version, _, number = self.folder.name.partition("-")
        return int(version), int(number or 0)

    def read(self) -> Checkpoint:
        """Read everything; raises DamagedCheckpointError if a file is missing, cut short or altered."""
        head = self.read_state()
        weights = self._tensors(self.weights_file, head)
        if list(weights) != ["weights"] or weights["weights"].dtype != np.float32 or weights["weights"].ndim != 1:
            raise DamagedCheckpointError(f"{self.weights_file}: is not one float32 vector named weights")
        optimizer = self._tensors(self.optimizer_file, head)
        return Checkpoint(head.version, head.score, weights["weights"], optimizer, head.state)

    def read_state(self) -> CheckpointState:
        """Read the state alone; raises DamagedCheckpointError."""
        try:
            return msgspec.json.decode(self.state_file.read_bytes(), type=CheckpointState)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise DamagedCheckpointError(f"{self.state_file}: {error}") from error

    def _tensors(self, file: Path, head: CheckpointState) -> dict[str, NDArray[Any]]:
        try:
            data = file.read_bytes()
        except OSError as error:
            raise DamagedCheckpointError(f"{file}: {error.strerror}") from error
        if zlib.crc32(data) != head.checksums.get(file.name):
            raise DamagedCheckpointError(f"{file}: checksum differs from the one in {self.state_file.name}")
        try:
            return load(data)
        except (SafetensorError, KeyError) as error:
            raise DamagedCheckpointError(f"{file}: {error}") from error


class RunFolder:
    """A folder that has a run, or will have one; see the layout at the top of this file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.settings_file = path / "settings.toml"
        self.run_file = path / "run.json"
        """A folder with this file is a run."""
        self.lock_file = path / "lock"
        """Locked by the running learner; contains its process id."""
        self.metrics_file = path / "metrics.jsonl"
        self.events = path / "events"
        self.checkpoints = path / "checkpoints"
        self.curve = path / "curve.png"
        self.summary_file = path / "summary.json"

    def record(self) -> RunRecord:
        """Read `run.json`; raises ConfigurationError if there is no run."""
        try:
            return msgspec.json.decode(self.run_file.read_bytes(), type=RunRecord)
        except FileNotFoundError as error:
            raise ConfigurationError(f"{self.path}: holds no run (there is no {self.run_file.name})") from error
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"{self.run_file}: cannot be read: {error}") from error

    def settings(self) -> Settings:
        """Read the settings; raises ConfigurationError if there is no run or its settings cannot be read."""
        self.record()
        return read(self.settings_file)

    def all_checkpoints(self) -> list[CheckpointPaths]:
        """Every checkpoint, oldest first, judged by its name only: it may be damaged."""
        if not self.checkpoints.is_dir():
            return []
        names = (entry for entry in self.checkpoints.iterdir() if _CHECKPOINT_NAME.fullmatch(entry.name))
        return sorted((CheckpointPaths(entry) for entry in names), key=lambda paths: paths.order)

    def newest(self) -> CheckpointPaths | None:
        """The newest checkpoint that can be read; damaged ones are skipped with a warning."""
        return next((paths for paths, _ in self._whole()), None)

    def best(self) -> CheckpointPaths | None:
        """The readable checkpoint with the highest score, the newer of two; the newest if none has a score."""
        ranked = max(self._whole(), key=lambda one: (one[1].score is not None, one[1].score or 0.0), default=None)
        return ranked and ranked[0]

    def _whole(self) -> Iterator[tuple[CheckpointPaths, Checkpoint]]:
        for paths in reversed(self.all_checkpoints()):
            try:
                yield paths, paths.read()
            except DamagedCheckpointError as error:
                _log.warning("checkpoint %s is damaged and skipped: %s", paths.folder.name, error)


def default_path(environment: str) -> Path:
    """runs/ENV-DATE-TIME below the working folder: the default folder of a new run."""
    name = bare(environment).replace("/", "-")
    return Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
