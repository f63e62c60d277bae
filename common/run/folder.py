"""The folder of a run: its paths, and how it is read. No torch is needed, and numpy only to read weights.

settings.toml     the run settings, resolved
run.json          id, date and epoch of the run, and the version of a3cd that created it
checkpoints/N/    weights.safetensors, optimizer.safetensors, state.json; N is the weights' version
metrics.jsonl     one object per line; events/ has the same for TensorBoard; curve.png is the learning curve
gradients/        what was applied, if it is recorded (record.gradients)
summary.json      written when the learner ends
lock              held by the running learner
"""

from __future__ import annotations

import logging
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from common.errors import ConfigurationError, DamagedCheckpointError, UnavailableError
from common.host import plain_file
from common.host.modules import bare
from common.run.status import EvaluationStatus
from common.settings.sections import Settings
from common.settings.toml import parse

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_CHECKPOINT_NAME = re.compile(r"\d+(-\d+)?")
_DAMAGE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
"""Errors of reading a file that does not exist; any other OSError comes from the disk, and may pass."""
SMALL_BYTES = 2**20
"""Most bytes of the record, of the settings and of the summary, of which each has some thousand."""
LAYOUT = "vector"
"""The key in the metadata of the weights that says how the vector is made of the tensors."""
T = TypeVar("T")
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
    commit: str = ""
    """Commit of the source of the learner that began the newest epoch; empty: it is not known."""
    host: str = ""
    """Host of that learner."""
    versions: dict[str, str] = {}
    """That learner's versions of Python, and of the packages that compute and play."""


class CheckpointState(msgspec.Struct, frozen=True, kw_only=True):
    """`state.json` of a checkpoint."""

    version: int
    """Version of the weights: optimizer steps taken."""
    score: float | None
    """Mean training return; None before the first."""
    state: dict[str, Any]
    """The rest of the learner's state: counters, model hash and so on."""
    checksums: dict[str, int]
    """CRC-32 of the other files, by name."""
    evaluation: EvaluationStatus | None = None
    """The evaluation of these weights, if it was the best so far."""


def rank(score: float | None, evaluation: EvaluationStatus | None) -> tuple[float, ...]:
    """Return a checkpoint's rank, higher for a better one: any evaluation ranks above any training return."""
    if evaluation is not None:
        return 2.0, evaluation.mean
    return (0.0,) if score is None else (1.0, score)


@dataclass(frozen=True)
class Checkpoint:
    version: int
    score: float | None
    weights: NDArray[np.float32]
    """(parameters,): the network's parameters in one vector."""
    optimizer: dict[str, NDArray[Any]]
    state: dict[str, Any]
    evaluation: EvaluationStatus | None = None


class CheckpointPaths:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.weights_file = folder / "weights.safetensors"
        """float32: named tensors in the shapes of PyTorch's layers, and how the vector is made of them. Or, from older
        versions and where there are no such names, the vector itself, named `weights`."""
        self.optimizer_file = folder / "optimizer.safetensors"
        self.state_file = folder / "state.json"

    @property
    def order(self) -> tuple[int, int]:
        """The sort key of checkpoints: by version, then in the order in which they were written."""
        version, _, number = self.folder.name.partition("-")
        return int(version), int(number or 0)

    def read(self) -> Checkpoint:
        """Read everything.

        Raises DamagedCheckpointError if a file is missing, cut short or altered, or if a number is not finite;
        UnavailableError if the disk does not give a file.
        """
        import numpy as np  # imported here: only readers of weights wait for it

        head = self.read_state()
        weights = _vector(self.weights_file, *self._tensors(self.weights_file, head))
        optimizer, _ = self._tensors(self.optimizer_file, head)
        for file, tensors in ((self.weights_file, {"weights": weights}), (self.optimizer_file, optimizer)):
            for name, array in tensors.items():
                if array.dtype.kind == "f" and not np.isfinite(array).all():
                    raise DamagedCheckpointError(f"{file}: {name} is not finite (NaN or infinity)")
        return Checkpoint(head.version, head.score, weights, optimizer, head.state, head.evaluation)

    def read_state(self) -> CheckpointState:
        """Read the state alone; raises as `read`."""
        data = _bytes(self.state_file)
        try:
            return msgspec.json.decode(data, type=CheckpointState)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise DamagedCheckpointError(f"{self.state_file}: {error}") from error

    def _tensors(self, file: Path, head: CheckpointState) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
        """Return the tensors in a file, and its metadata."""
        from safetensors import SafetensorError
        from safetensors.numpy import load

        data = _bytes(file)
        if zlib.crc32(data) != head.checksums.get(file.name):
            raise DamagedCheckpointError(f"{file}: checksum differs from the one in {self.state_file.name}")
        try:
            tensors = load(data)
            header = msgspec.json.decode(data[8 : 8 + int.from_bytes(data[:8], "little")], type=_Header)
        except (SafetensorError, KeyError, msgspec.MsgspecError) as error:
            raise DamagedCheckpointError(f"{file}: {error}") from error
        return tensors, header.metadata


class _Header(msgspec.Struct):
    """The header of a file of tensors; safetensors cannot read it from memory."""

    metadata: dict[str, str] = msgspec.field(name="__metadata__", default_factory=dict)


def _vector(file: Path, tensors: dict[str, NDArray[Any]], metadata: dict[str, str]) -> NDArray[np.float32]:
    """Return the flat vector of the weights."""
    import numpy as np

    from common.rl.named_tensors import NamedTensor, to_vector

    if LAYOUT in metadata:
        try:
            return to_vector(tensors, msgspec.json.decode(metadata[LAYOUT], type=list[NamedTensor]))
        except (ValueError, OverflowError, msgspec.MsgspecError) as error:
            raise DamagedCheckpointError(f"{file}: {error}") from error
    vector = tensors.get("weights")
    if vector is None or len(tensors) > 1 or vector.dtype != np.float32 or vector.ndim != 1:
        raise DamagedCheckpointError(f"{file}: is neither named tensors nor one float32 vector named weights")
    return vector


def _bytes(file: Path) -> bytes:
    """Return the content of a file of a checkpoint."""
    try:
        return file.read_bytes()
    except _DAMAGE as error:
        raise DamagedCheckpointError(f"{file}: {error.strerror}") from error
    except OSError as error:
        raise UnavailableError(
            f"{file}: the disk does not give it: {error.strerror}; nothing was changed. If this stays, move its folder "
            "away to go on from the checkpoint before it"
        ) from error


def _decoded(file: Path, kind: type[T]) -> T:
    """Return the content of a JSON file; raises as `RunFolder.record`, but one of _DAMAGE if there is no file."""
    try:
        return msgspec.json.decode(plain_file.read(file, SMALL_BYTES), type=kind)
    except _DAMAGE:
        raise
    except OSError as error:
        raise UnavailableError(f"{file}: cannot be read now: {error.strerror}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file}: cannot be read: {error}") from error


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
        self.gradients = path / "gradients"
        self.curve = path / "curve.png"
        self.summary_file = path / "summary.json"

    def record(self) -> RunRecord:
        """Read `run.json`.

        Raises ConfigurationError if there is no run; UnavailableError if the disk does not give the file.
        """
        try:
            return _decoded(self.run_file, RunRecord)
        except _DAMAGE as error:
            raise ConfigurationError(
                f"{self.path}: holds no run (there is no {self.run_file.name}); `a3cd runs` lists those in runs/"
            ) from error

    def summary(self) -> dict[str, Any]:
        """Return the run's summary, which its learner wrote at the end (`status.summary`); empty while it goes on.

        Raises as `record`.
        """
        epoch = self.record().epoch
        try:
            found = _decoded(self.summary_file, dict[str, Any])
        except _DAMAGE:
            return {}
        return found if found.get("epoch") == epoch else {}

    def holds_run(self) -> bool:
        """Return whether there is a run; raises UnavailableError if the disk cannot tell."""
        try:
            self.run_file.stat()
        except _DAMAGE:
            return False
        except OSError as error:
            raise UnavailableError(f"{self.run_file}: cannot be read now: {error.strerror}") from error
        return True

    def settings(self) -> Settings:
        """Read the settings.

        Raises ConfigurationError if there is no run or its settings are wrong; UnavailableError if the disk does not
        give them.
        """
        self.record()
        file = self.settings_file
        try:
            content = plain_file.read(file, SMALL_BYTES)
        except _DAMAGE as error:
            raise ConfigurationError(f"{file}: {error.strerror}") from error
        except OSError as error:
            raise UnavailableError(f"{file}: {error.strerror}") from error
        return parse(content, str(file))

    def all_checkpoints(self) -> list[CheckpointPaths]:
        """Return every checkpoint, oldest first, by its name only: it may be damaged. Raises UnavailableError."""
        try:
            names = [entry for entry in self.checkpoints.iterdir() if _CHECKPOINT_NAME.fullmatch(entry.name)]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise UnavailableError(f"{self.checkpoints}: cannot be read now: {error.strerror}") from error
        return sorted((CheckpointPaths(entry) for entry in names), key=lambda paths: paths.order)

    def newest(self) -> CheckpointPaths | None:
        """Return the newest whole checkpoint, None if there is none at all. Warns and raises as `newest_read`."""
        newest = next(self._whole({}), None)
        return newest and newest[0]

    def newest_read(self, damaged: dict[str, DamagedCheckpointError]) -> Checkpoint | None:
        """Read the newest checkpoint that is whole; None if there is none at all.

        Newer ones that are damaged are passed over with a warning, and added to `damaged` by their names. Raises
        DamagedCheckpointError if none is whole; UnavailableError if the disk cannot read one, since it may be whole.
        """
        newest = next(self._whole(damaged), None)
        return newest and newest[1]

    def best(self) -> CheckpointPaths | None:
        """Return the whole checkpoint with the best evaluation.

        Without evaluations, it is the one with the highest score (of equal scores, the newest); without scores, it is
        the newest. None if there is none at all. Warns and raises as `newest_read`.
        """
        best = max(self._whole({}), key=lambda one: rank(one[1].score, one[1].evaluation), default=None)
        return best and best[0]

    def _whole(self, damaged: dict[str, DamagedCheckpointError]) -> Iterator[tuple[CheckpointPaths, Checkpoint]]:
        """Yield the whole checkpoints, newest first; raises DamagedCheckpointError if all checkpoints are damaged."""
        every = self.all_checkpoints()
        for paths in reversed(every):
            try:
                checkpoint = paths.read()
            except DamagedCheckpointError as error:
                damaged[paths.folder.name] = error
                _log.warning("checkpoint %s is damaged and passed over: %s", paths.folder.name, error)
            else:
                yield paths, checkpoint
        if damaged and len(damaged) == len(every):
            first = next(iter(damaged.values()))
            raise DamagedCheckpointError(
                f"{self.checkpoints}: none of the checkpoints there is whole ({first}); put a good one back, or choose "
                "another --run-dir to begin anew"
            )


def default_path(environment: str) -> Path:
    """Return the default folder of a new run: runs/ENV-DATE-TIME below the working folder."""
    name = bare(environment).replace("/", "-")
    return Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
