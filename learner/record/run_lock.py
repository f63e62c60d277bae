"""Locks a run folder, for a new run in it or to resume the one that it holds: one learner at a time."""

import contextlib
import os
import platform
import secrets
import shutil
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import msgspec

from common.errors import WRONG_PATH, ConfigurationError, UnavailableError
from common.host import file_lock, plain_file
from common.host.atomic_file import replace_file
from common.host.versions import ENVIRONMENTS, commit, versions
from common.run.folder import RunFolder, RunRecord
from common.settings.sections import Settings
from common.settings.toml import dump
from common.settings.validate import check

_FREE = ("environment.num_envs", "environment.step_seconds")
"""Settings of the environment that change how fast it is played, not the task; a resumed run may change them."""

_UNRESOLVED = ("auto", 0)
"""Values of written settings that the run folder's resolved settings replace."""


@dataclass(frozen=True)
class LockedRun:
    """A run folder whose lock this process holds until `close`."""

    folder: RunFolder
    record: RunRecord
    settings: Settings
    lock: IO[bytes]

    def begin(self, settings: Settings) -> None:
        """Begin the epoch with these settings, which are those of the run, resolved; raises UnavailableError."""
        try:
            self.write(settings)
        except OSError as error:
            raise UnavailableError(f"{self.folder.path}: cannot be written: {error.strerror}") from error

    def write(self, settings: Settings) -> None:
        """Write the settings, then the record: a folder is a run once it has the record. Raises OSError."""
        replace_file(self.folder.settings_file, dump(settings).encode())
        replace_file(self.folder.run_file, msgspec.json.format(msgspec.json.encode(self.record), indent=2) + b"\n")

    def discard(self) -> None:
        """Remove, as far as possible, the files of a run that `create` made but that could not begin."""
        folder = self.folder
        for made in (folder.checkpoints, folder.events):
            shutil.rmtree(made, ignore_errors=True)
        # The lock goes last: a folder with it but without run.json is free for another start.
        for file in (folder.metrics_file, folder.run_file, folder.settings_file, folder.lock_file):
            with contextlib.suppress(OSError):
                file.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # not empty, or not this user's to remove, such as one that systemd made
            folder.path.rmdir()

    def close(self) -> None:
        self.lock.close()


def create(path: Path, settings: Settings) -> LockedRun:
    """Start a new run in a folder that does not exist, is empty, or holds only the files of a start that was killed.

    Raises ConfigurationError if the folder holds something else or can never be a run folder; UnavailableError if a
    learner uses it, or the disk does not take the files.
    """
    folder = RunFolder(path)
    with _locked(folder, require_empty, WRONG_PATH) as lock:
        created = datetime.now(UTC).isoformat(timespec="seconds")
        own = versions().get("a3cd", "not installed")
        record = RunRecord(run=secrets.token_hex(8), created=created, epoch=1, a3cd=own, **_made_of())
        run = LockedRun(folder, record, settings, lock)
        run.write(settings)
        return run


def resume(path: Path, settings: Settings | None) -> LockedRun:
    """Resume the run in a folder, in a new epoch, with its own settings or with others that fit it.

    Nothing is changed there before `LockedRun.begin`, since the learner may not be able to begin with these settings.
    Where `settings` say `auto` or 0 for the environment, the network or the exchange, the resolved values are used.
    Raises ConfigurationError if there is no run, or if the settings are of another environment, network, algorithm or
    optimizer, or do not fit its exchange; UnavailableError if another learner is using it, or the disk does not give or
    take its files.
    """
    folder = RunFolder(path)
    with _locked(folder, RunFolder.record, ()) as lock:  # it was usable before: any error may pass
        own = fitted(settings or folder.settings(), folder)
        record = folder.record()
        record = msgspec.structs.replace(record, epoch=record.epoch + 1, **_made_of())
        return LockedRun(folder, record, own, lock)


def _made_of() -> dict[str, Any]:
    """Return what else the figures of a run depend on, for its record: the commit, the host and the versions."""
    return {"commit": commit(), "host": platform.node() or "unknown", "versions": versions(*ENVIRONMENTS)}


@contextlib.contextmanager
def _locked(folder: RunFolder, fits: Callable[[RunFolder], object], wrong: Collection[int]) -> Iterator[IO[bytes]]:
    """Make and lock the folder; unlock it only if the block fails.

    `fits` is called before anything is made, and again once nobody else can change the folder. It raises if the folder
    does not fit. System errors in `wrong` are the operator's fault; all others are the disk's, and may pass.
    """
    lock = None
    try:
        fits(folder)
        folder.path.mkdir(parents=True, exist_ok=True)
        lock = _lock(folder)
        fits(folder)
        yield lock
    except BaseException as error:
        if lock is not None:
            lock.close()
        if not isinstance(error, OSError):
            raise
        if error.errno in wrong:
            raise ConfigurationError(f"{folder.path}: cannot be a run folder: {error.strerror}") from error
        raise UnavailableError(f"{error.filename or folder.path}: cannot be used now: {error.strerror}") from error


def require_empty(folder: RunFolder) -> None:
    """Raise ConfigurationError if the folder cannot hold a new run; may raise OSError, too."""
    try:
        entries = {entry.name for entry in folder.path.iterdir()}
    except FileNotFoundError:
        return
    except NotADirectoryError:
        if not folder.path.exists():  # a folder above it is a file
            raise
        raise ConfigurationError(f"{folder.path}: is a file; a run needs a folder (another --run-dir)") from None
    if folder.run_file.exists():
        raise ConfigurationError(
            f"{folder.path}: holds run {folder.record().run} already; go on with it with --resume, or choose another "
            "--run-dir"
        )
    others = sorted(entries - _left_by_a_start(folder, entries))
    if others:
        raise ConfigurationError(
            f"{folder.path}: is not empty and holds no run (there is {others[0]}); choose another --run-dir"
        )


def _left_by_a_start(folder: RunFolder, entries: Collection[str]) -> set[str]:
    """Return the files of a start that was killed before the folder was a run: the lock, and settings beside it.

    Without the lock, the settings are somebody's own file.
    """
    lock, settings, record = (file.name for file in (folder.lock_file, folder.settings_file, folder.run_file))
    return {lock, settings, f".{settings}.partial", f".{record}.partial"} if lock in entries else set()


def _lock(folder: RunFolder) -> IO[bytes]:
    """Open and lock the lock file, and write the id of this process into it."""
    file, _ = plain_file.open_or_create(folder.lock_file)
    try:
        file_lock.lock(file, wait=False)  # on Windows nothing keeps two learners out of one folder
        os.ftruncate(file.fileno(), 0)
        os.write(file.fileno(), f"{os.getpid()}\n".encode())
    except BlockingIOError as error:
        file.seek(0)
        holder = file.read(20).decode(errors="replace").strip() or "unknown"
        file.close()
        raise UnavailableError(f"{folder.path}: another learner (process {holder}) is at work here") from error
    except BaseException:
        file.close()
        raise
    return file


def fitted(given: Settings, folder: RunFolder) -> Settings:
    """Return the settings with which the run in the folder goes on: those given, with the resolved values of the run.

    Raises ConfigurationError if it cannot go on with them.
    """
    own = folder.settings()
    environment = _resolved(given.environment, own.environment)
    network = _resolved(given.network, own.network)
    exchange = given.exchange
    if exchange.kind == "auto":
        exchange = msgspec.structs.replace(exchange, kind=own.exchange.kind)
    whole = msgspec.structs.replace(given, environment=environment, network=network, exchange=exchange)
    wanted = _task(whole)
    differing = [f"{name} is {its!r}, not {wanted[name]!r}" for name, its in _task(own).items() if its != wanted[name]]
    if differing:
        raise ConfigurationError(
            f"{folder.path}: the run has other settings: {'; '.join(differing)}; resume with the run's own, or choose "
            "another --run-dir"
        )
    if whole.reproducible:
        raise ConfigurationError(
            f"{folder.path}: reproducible = true: a run that is resumed is not the same as one that was not; begin "
            "anew in another --run-dir, or go on with reproducible = false"
        )
    check(whole, str(folder.path))
    return whole


def _resolved(given: Any, own: Any) -> Any:
    unresolved = [
        name
        for name, value in msgspec.structs.asdict(given).items()
        if not isinstance(value, bool | float) and value in _UNRESOLVED
    ]
    return msgspec.structs.replace(given, **{name: getattr(own, name) for name in unresolved})


def _task(settings: Settings) -> dict[str, object]:
    """Return the settings that a resumed run may not change."""
    task: dict[str, object] = {}
    for section in ("environment", "network"):
        fields = msgspec.structs.asdict(getattr(settings, section))
        task |= {f"{section}.{name}": value for name, value in fields.items()}
    task |= {"algorithm.kind": settings.algorithm.kind, "optimizer.kind": settings.optimizer.kind}
    return {name: value for name, value in task.items() if name not in _FREE}
