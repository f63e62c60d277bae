"""Replays a run's record of what was applied: it must give the same weights, or names the first version that differs.

A replay has no arithmetic of its own: `learner.build` builds the same parts of the learner, and they repeat their work.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray

from common.errors import (
    AgainstOthersError,
    CodecError,
    ConfigurationError,
    DamagedCheckpointError,
    DamagedRecordError,
)
from common.run.folder import Checkpoint, CheckpointPaths, RunFolder
from common.settings.sections import Settings
from learner.applied import Added, AnyEntry, Began, Stepped
from learner.arithmetic import set_arithmetic
from learner.build import Parts, assemble
from learner.exchange.base import ContributionExchange
from learner.record.gradient_history import History, Lost
from learner.run_stats import Counters

_log = logging.getLogger(__name__)
MOST_NAMED = 10
"""Most duplicates that are listed."""


class Replayed(msgspec.Struct, kw_only=True):
    """What a replay found."""

    run: str
    env: str
    algorithm: str
    exchange: str
    first: int
    """Oldest version to which the record goes back without a hole."""
    hole: str = ""
    """Why the record goes no further back; empty: it begins there."""
    last: int
    """Newest version of the record."""
    lost: list[Lost] = []
    """Steps that were lost when the learner was restarted."""
    start: int = 0
    started_from: str = ""
    """The name of a checkpoint; empty: new weights."""
    version: int = 0
    """The version that the replay reached."""
    steps: int = 0
    contributions: int = 0
    actors: dict[str, int] = {}
    """Number of contributions of each actor."""
    duplicates: list[str] = []
    """The first few contributions that were applied more than once."""
    checksums: int = 0
    """Number of versions whose checksum was equal to the recorded one."""
    checkpoints: list[str] = []
    """Names of the checkpoints that were equal in every number."""
    different_version: int | None = None
    """The first version that differs."""
    difference: str = ""
    problem: str = ""
    """Why the replay does not prove all that it should."""
    checksum: str = ""
    """Checksum of the weights of the version reached."""

    @property
    def differs(self) -> bool:
        return bool(self.difference or self.duplicates)

    @property
    def equal(self) -> bool:
        return not self.differs and not self.problem and bool(self.checksums or self.checkpoints)


def replay(path: Path, start: int | None = None, until: int | None = None) -> Replayed:
    """Replay the run in a folder, which is only read; a learner may be at work in it.

    Args:
        start: a version that has a checkpoint, or 0; None: the oldest version from which a replay is possible.
        until: the last version; None: the newest.

    Raises ConfigurationError if a replay is not possible, and DamagedRecordError if nothing of the record can be read.
    """
    folder = RunFolder(path)
    set_arithmetic(folder.settings().optimizer.threads)
    return _Replay(folder, until).run(start)


class _Replay:
    def __init__(self, folder: RunFolder, until: int | None) -> None:
        self._folder = folder
        self._record = folder.record()
        self._history = History.read(folder.gradients)
        kept = (one for one in _Kept.all(folder) if self._history.is_on(one.version, one.epoch))
        self._kept = {one.version: one.paths for one in kept}
        self._asked_until = until is not None
        self._until = self._history.last if until is None else until
        self._parts: Parts | None = None
        self._at = (0, 0)
        """Version and frames of the weights reached so far."""
        self._seen: dict[tuple[str, str], set[int]] = {}
        newest = self._history.newest.settings
        self._result = Replayed(
            run=self._record.run,
            env=newest["environment"]["id"],
            algorithm=newest["algorithm"]["kind"],
            exchange=newest["exchange"]["kind"],
            first=self._history.first,
            last=self._history.last,
            lost=self._history.lost,
            hole=self._history.hole,
        )

    def run(self, start: int | None) -> Replayed:
        result = self._result
        begin, checkpoint, name = self._begin(start)
        if not begin <= self._until <= self._history.last:
            raise ConfigurationError(
                f"{self._folder.gradients}: a replay from version {begin} can go to {self._history.last}, not to "
                f"{self._until}"
            )
        result.start, result.started_from, result.version = begin, name, begin
        try:
            for piece in self._history.pieces:
                after, until = max(begin, piece.first), min(piece.last, self._until)
                if after < until and not result.difference:
                    self._epoch(piece.epoch.began, checkpoint)
                    self._apply(piece.entries(after, until))
        except DamagedRecordError as error:
            result.problem = str(error)
        self._conclude()
        return result

    def _begin(self, start: int | None) -> tuple[int, Checkpoint | None, str]:
        """Return where to begin: the version, its checkpoint (None: new weights) and the checkpoint's name."""
        history = self._history
        possible = [version for version in self._kept if self._can_begin(version)]
        if history.first == 0 and history.pieces[0].epoch.whole:
            possible = sorted({0, *possible})
        begin = min(possible, default=None) if start is None else start
        if begin not in possible:
            raise ConfigurationError(self._cannot(start, possible))
        if begin not in self._kept:
            return 0, None, ""
        paths = self._kept[begin]
        return begin, paths.read(), paths.folder.name

    def _can_begin(self, version: int) -> bool:
        """Whether a replay can begin at this version.

        Some settings make steps depend on state that no checkpoint holds. An epoch begins without that state, so with
        these settings a replay can only begin where an epoch does.
        """
        pieces = [piece for piece in self._history.pieces if piece.first <= version <= piece.last]
        return any(version == piece.first or not _unsaved(piece.epoch.began) for piece in pieces)

    def _cannot(self, start: int | None, possible: list[int]) -> str:
        history = self._history
        reach = f"{self._folder.gradients}: goes back to version {history.first}"
        if history.hole:
            reach += f" ({history.hole})"
        if possible:
            return f"{reach}; a replay can begin at {', '.join(map(str, possible))}, not at {start}"
        why = "no checkpoint that is kept is on what it holds"
        if unsaved := next((text for piece in history.pieces if (text := _unsaved(piece.epoch.began))), ""):
            why = f"with {unsaved} a replay begins where an epoch began, and that is not kept"
        return f"{reach}, and {why}: a larger record.keep_mib or checkpoint.keep reaches further back"

    def _epoch(self, began: Began, checkpoint: Checkpoint | None) -> None:
        """Build the learner of an epoch: the first from `checkpoint`, later ones from the weights reached so far."""
        if self._parts is not None:
            checkpoint = self._snapshot()
        try:
            settings = msgspec.convert(began.settings, Settings)
        except msgspec.ValidationError as error:
            text = f"was recorded by a3cd {began.a3cd}, whose settings this one does not know: {error}"
            raise ConfigurationError(f"{self._folder.gradients}: epoch {began.epoch} {text}") from error
        record = msgspec.structs.replace(self._record, run=began.run, epoch=began.epoch)
        self._parts = assemble(self._folder, record, settings, checkpoint)
        counters = self._parts.run.stats.counters
        self._at = counters.version, counters.last_step_frames

    def _snapshot(self) -> Checkpoint:
        """Return what a checkpoint of the weights reached would hold."""
        assert self._parts is not None
        weights, (version, frames) = self._parts.weights, self._at
        factor = weights.optimizer.factor
        counters = Counters(version=version, frames=frames, stepped_frames=frames, learning_rate_factor=factor)
        return Checkpoint(
            version=version,
            score=None,
            weights=_array(weights.vector),
            optimizer={name: _array(tensor) for name, tensor in weights.state().items()},
            state={
                "model": self._parts.run.spec.model,
                "counters": msgspec.to_builtins(counters),
                "moments": weights.moments,
            },
        )

    def _apply(self, entries: Iterator[tuple[AnyEntry, bytes]]) -> None:
        assert self._parts is not None
        exchange = self._parts.exchange
        assert isinstance(exchange, ContributionExchange)
        added: list[Added] = []
        for entry, body in entries:
            match entry:
                case Began():
                    self._compare_checksum(entry.version, entry.checksum)
                case Added():
                    if why := _added(exchange, entry, body):
                        self._differs(self._at[0] + 1, f"the contribution {_name(entry)} {why}")
                        return
                    added += [] if entry.against else [entry]
                case Stepped():
                    result = exchange.advance(scale=entry.scale, frames=entry.frames)
                    self._at = entry.version, entry.frames
                    self._compare_left_out(added, set(entry.left_out), set(result.left_out))
                    self._count([one for number, one in enumerate(added) if number not in entry.left_out])
                    added = []
                    self._compare_checksum(entry.version, entry.checksum)
                    if self._compare_checkpoint(entry.version) and self._result.difference:
                        return

    def _count(self, added: list[Added]) -> None:
        result = self._result
        result.version = self._at[0]
        result.steps += 1
        result.contributions += len(added)
        for entry in added:
            result.actors[entry.peer] = result.actors.get(entry.peer, 0) + 1
            seen = self._seen.setdefault((entry.peer, entry.incarnation), set())
            if entry.header.sequence in seen and len(result.duplicates) < MOST_NAMED:
                result.duplicates.append(f"{_name(entry)}, again at version {result.version}")
            seen.add(entry.header.sequence)

    def _compare_left_out(self, added: list[Added], recorded: set[int], replayed: set[int]) -> None:
        if recorded != replayed and not self._result.difference:
            names = ", ".join(_name(added[number]) for number in sorted(recorded ^ replayed))
            self._differs(self._at[0], f"either the run or the replay left out {names}, and the other did not")

    def _compare_checksum(self, version: int, expected: int | None) -> None:
        assert self._parts is not None
        if expected is None or self._result.difference:
            return
        found = self._parts.weights.checksum
        if found == expected:
            self._result.checksums += 1
        else:
            self._differs(version, f"the weights have the checksum {found:08x}, not {expected:08x} as recorded")

    def _compare_checkpoint(self, version: int) -> bool:
        """Compare with the checkpoint of this version; return whether there is one.

        After a first difference, add to its text how large it has become.
        """
        if version not in self._kept:
            return False
        assert self._parts is not None
        paths, result = self._kept[version], self._result
        try:
            saved = paths.read()
        except DamagedCheckpointError:  # a learner at work may have removed it since
            return False
        apart = _apart(self._snapshot(), saved)
        if apart:
            text = f"at version {version} the checkpoint {paths.folder.name} differs: {apart}"
            self._differs(result.different_version or version, f"{result.difference}; {text}".removeprefix("; "))
        elif not result.difference:
            result.checkpoints.append(paths.folder.name)
        return True

    def _differs(self, version: int, text: str) -> None:
        self._result.different_version = version
        self._result.difference = text

    def _conclude(self) -> None:
        result, history = self._result, self._history
        if self._parts is not None:
            result.checksum = f"{self._parts.weights.checksum:08x}"
        if result.problem or result.difference or self._asked_until:
            return
        newest = max(_Kept.all(self._folder), key=lambda one: (one.epoch, one.version), default=None)
        if history.damage:
            result.problem = history.damage
        elif newest is not None and (newest.epoch, newest.version) > (history.newest.epoch, history.last):
            end = f"version {history.last} of epoch {history.newest.epoch}"
            text = f"the record ends at {end}, before the newest checkpoint ({newest.version} of {newest.epoch})"
            result.problem = f"{text}: recording had stopped, or was off"
        elif not result.steps:
            result.problem = f"there is no step behind version {result.start}"


@dataclass(frozen=True)
class _Kept:
    """A checkpoint that could be read."""

    paths: CheckpointPaths
    version: int
    epoch: int
    """The epoch that wrote it."""

    @classmethod
    def all(cls, folder: RunFolder) -> "list[_Kept]":
        """Return all readable checkpoints of a run folder, oldest first."""
        found = []
        for paths in folder.all_checkpoints():
            try:
                checkpoint = paths.read()
            except DamagedCheckpointError as error:
                _log.warning("checkpoint %s is damaged and passed over: %s", paths.folder.name, error)
            else:
                found.append(cls(paths, checkpoint.version, int(checkpoint.state.get("epoch", 0))))
        return found


def _added(exchange: ContributionExchange, entry: Added, body: bytes) -> str:
    """Add a contribution as the run did; return what went differently, or an empty text."""
    against = False
    try:
        seen = exchange.moments(entry.header)
        exchange.add(entry.header, body, entry.weight, entry.lag, seen, source=entry.peer)
    except AgainstOthersError:
        against = True
    except CodecError as error:
        return f"cannot be used: {error}"
    return "" if against == entry.against else "was left out by either the run or the replay, and not by the other"


def _unsaved(began: Began) -> str:
    """Return the setting that makes an epoch's steps depend on state outside its checkpoints; empty: there is none."""
    settings = began.settings
    if settings["staleness"]["policy"] == "compensate":
        return 'staleness.policy = "compensate"'
    if (robust := settings["exchange"].get("robust", "none")) != "none":
        return f'exchange.robust = "{robust}"'
    for section, key in (("network", "normalize"), ("environment", "reward_normalize")):
        if settings[section][key]:  # an actor's statistics are judged by those of the others, which no checkpoint has
            return f"{section}.{key} = true"
    return ""


def _apart(replayed: Checkpoint, saved: Checkpoint) -> str:
    """Return what differs between two checkpoints of one version, and by how much; empty if nothing does."""
    ours, theirs = ({"weights": one.weights, **one.optimizer} for one in (replayed, saved))
    if ours.keys() != theirs.keys():
        return f"{', '.join(sorted(ours.keys() ^ theirs.keys()))} is in one of them only"
    texts = []
    for name, array in ours.items():
        if array.tobytes() != theirs[name].tobytes():
            most = np.max(np.abs(array.astype(np.float64) - theirs[name]))
            texts.append(f"{name} by up to {most:.3g} in {np.sum(array != theirs[name]):,} of {array.size:,} numbers")
    if msgspec.json.encode(replayed.state["moments"]) != msgspec.json.encode(saved.state.get("moments")):
        texts.append("the running statistics")
    return ", ".join(texts)


def _array(values: torch.Tensor) -> NDArray[Any]:
    return np.array(values.detach().cpu().numpy(), order="C")


def _name(entry: Added) -> str:
    return f"{entry.peer} ({entry.incarnation}) {entry.header.sequence}"
