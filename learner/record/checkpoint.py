"""Writes checkpoints, each whole or not at all, and keeps the last few and the best."""

from __future__ import annotations

import contextlib
import logging
import math
import shutil
import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from safetensors import numpy as safetensors

from common.errors import A3cdError, DamagedCheckpointError, NonFiniteError, UnavailableError
from common.host.atomic_file import replace_file, sync_folder, write_synced
from common.rl.named_tensors import NamedTensor, to_tensors
from common.run.folder import LAYOUT, Checkpoint, CheckpointPaths, CheckpointState, RunFolder, rank
from common.run.status import EvaluationStatus
from learner.effects import RateCheckpoint, SaveCheckpoint

if TYPE_CHECKING:
    from torch import Tensor  # the import takes seconds, so the daemon defers it until it has its ports and folder

_log = logging.getLogger(__name__)


@dataclass
class _Written:
    """A checkpoint in the folder."""

    paths: CheckpointPaths
    score: float | None
    evaluation: EvaluationStatus | None
    ours: bool
    """Whether this writer wrote it: the same version of an earlier epoch may have other weights."""

    @property
    def rank(self) -> tuple[float, ...]:
        return rank(self.score, self.evaluation)


class CheckpointWriter:
    """Writes the checkpoints of one run; the folder must be locked by this process.

    A checkpoint is written into a folder beside its final place, brought to the disk, and renamed: a reader, or a
    learner that starts after a crash, never sees a part of one. A checkpoint that is removed is renamed first, for the
    same reason. Damaged checkpoints are left for the operator.
    """

    def __init__(
        self,
        folder: RunFolder,
        *,
        keep: int,
        best: bool,
        damaged: Collection[str] = (),
        layout: Sequence[NamedTensor] = (),
    ) -> None:
        """`keep`: number of the last checkpoints to keep, 1 or more; `best`: keep also the best, and those under
        evaluation.

        `damaged`: names of checkpoints that the learner found damaged when it read them; of the others, only the states
        are read here. `layout`: the tensors into which the saved weights are split; empty: they stay one vector.
        Raises OSError, or UnavailableError, if the folder cannot be read or written.
        """
        self._folder = folder
        self._keep = keep
        self._best = best
        self._layout = list(layout)
        folder.checkpoints.mkdir(exist_ok=True)
        for left_over in (*folder.checkpoints.glob(".*.partial"), *folder.checkpoints.glob(".*.removed")):
            shutil.rmtree(left_over, ignore_errors=True)
        self._written = [entry for entry in _scored(folder) if entry.paths.folder.name not in damaged]
        self._to_rate: RateCheckpoint | None = None
        """The evaluation of the best checkpoint that the disk has not taken yet."""

    def write(self, save: SaveCheckpoint) -> CheckpointPaths:
        """Write a checkpoint, and remove those no longer kept; blocks until it is on the disk.

        Raises OSError if the disk does not take it, and NonFiniteError if a number in it is not finite, with the
        checkpoints as they were.
        """
        _require_finite(save)
        target = self._free_place(save.version)
        partial = target.folder.with_name(f".{target.folder.name}.partial")
        score = None if save.score is None or not math.isfinite(save.score) else save.score
        try:
            _fill(CheckpointPaths(partial), save, score, self._layout)
            partial.rename(target.folder)
        except OSError:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        self._written.append(_Written(target, score, None, ours=True))  # before what may fail, or nothing removes it
        sync_folder(self._folder.checkpoints)
        with contextlib.suppress(A3cdError, OSError):  # told when it was tried first
            self._note_evaluation()
        self._remove_old(save.under_evaluation)
        return target

    def rate(self, rate: RateCheckpoint) -> None:
        """Note in a checkpoint of this writer its evaluation; do nothing if it is not there any more.

        Raises OSError if the disk does not take it, and what `CheckpointPaths.read_state` raises: then it is tried
        again with each further checkpoint.
        """
        self._to_rate = rate
        if self._rated() is None:
            _log.warning("there is no checkpoint of version %d, which was evaluated best", rate.version)
        self._note_evaluation()

    def _rated(self) -> _Written | None:
        """The checkpoint whose evaluation is to be noted; None: there is none."""
        if self._to_rate is None:
            return None
        version = self._to_rate.version
        return next((one for one in reversed(self._written) if one.ours and one.paths.order[0] == version), None)

    def _note_evaluation(self) -> None:
        """Write the evaluation that is not on the disk yet, if there is one; raises as `rate`."""
        rate, entry = self._to_rate, self._rated()
        if rate is not None and entry is not None:
            head = msgspec.structs.replace(entry.paths.read_state(), evaluation=rate.evaluation)
            replace_file(entry.paths.state_file, msgspec.json.format(msgspec.json.encode(head), indent=2))
            entry.evaluation = rate.evaluation
        self._to_rate = None

    def read_best(self) -> Checkpoint:
        """Return the checkpoint with the best evaluation; without evaluations, the one with the highest score.

        Of two equals, the newer one counts. Raises UnavailableError if no checkpoint has either, and what
        `CheckpointPaths.read` raises.
        """
        best = self._highest()
        if best is None:
            raise UnavailableError(f"{self._folder.checkpoints}: none has a mean return yet")
        return best.paths.read()

    def _highest(self) -> _Written | None:
        scored = [entry for entry in reversed(self._written) if len(entry.rank) > 1]
        return max(scored, key=lambda entry: entry.rank, default=None)

    def _free_place(self, version: int) -> CheckpointPaths:
        """Return an unused folder for this version, which need not be new: the last checkpoint may repeat the previous
        one's version.
        """
        taken = [paths.order[1] for paths in self._folder.all_checkpoints() if paths.order[0] == version]
        name = f"{version:010d}" + (f"-{max(taken) + 1}" if taken else "")
        return CheckpointPaths(self._folder.checkpoints / name)

    def _remove_old(self, under_evaluation: Collection[int]) -> None:
        last = self._written[-self._keep :]
        best = (self._highest(), self._rated()) if self._best else ()
        kept = []
        for entry in self._written:
            judged = self._best and entry.ours and entry.paths.order[0] in under_evaluation
            if entry in last or entry in best or judged:
                kept.append(entry)
            else:
                _remove(entry.paths.folder)
        self._written = kept


def _remove(checkpoint: Path) -> None:
    """Remove a checkpoint; if the disk does not allow it, it stays until the next start."""
    aside = checkpoint.with_name(f".{checkpoint.name}.removed")
    shutil.rmtree(aside, ignore_errors=True)
    try:
        checkpoint.rename(aside)
    except OSError as error:
        _log.warning("checkpoint %s could not be removed: %s", checkpoint.name, error)
    else:
        shutil.rmtree(aside, ignore_errors=True)


def _scored(folder: RunFolder) -> Iterator[_Written]:
    for paths in folder.all_checkpoints():
        try:
            head = paths.read_state()
            yield _Written(paths, head.score, head.evaluation, ours=False)
        except DamagedCheckpointError as error:
            _log.warning("checkpoint %s is damaged and left as it is: %s", paths.folder.name, error)


def _require_finite(save: SaveCheckpoint) -> None:
    # Not with torch: in this thread it would start a second team of threads. If teams outnumber the cores, OpenMP lets
    # them sleep between operations: a learner with optimizer.threads=2 then took 1.5 times as long for a step.
    for name, tensor in ("weights", save.weights), *save.optimizer.items():
        if tensor.is_floating_point() and not np.isfinite(_array(tensor)).all():
            raise NonFiniteError(f"{name} of version {save.version} are not finite (NaN or infinity)")


def _fill(paths: CheckpointPaths, save: SaveCheckpoint, score: float | None, layout: list[NamedTensor]) -> None:
    weights = _array(save.weights)
    named = to_tensors(weights, layout) if layout else {"weights": weights}
    metadata = {LAYOUT: msgspec.json.encode(layout).decode()} if layout else None
    files = {
        paths.weights_file: safetensors.save(named, metadata),
        paths.optimizer_file: safetensors.save({name: _array(tensor) for name, tensor in save.optimizer.items()}),
    }
    checksums = {file.name: zlib.crc32(data) for file, data in files.items()}
    head = CheckpointState(version=save.version, score=score, state=save.state, checksums=checksums)
    shutil.rmtree(paths.folder, ignore_errors=True)
    paths.folder.mkdir()
    for file, data in files.items():
        write_synced(file, data)
    write_synced(paths.state_file, msgspec.json.format(msgspec.json.encode(head), indent=2))
    sync_folder(paths.folder)


def _array(values: Tensor) -> NDArray[Any]:
    return np.asarray(values.detach().cpu().numpy(), order="C")
