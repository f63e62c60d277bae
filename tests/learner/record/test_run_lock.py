from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from common.errors import A3cdError, ConfigurationError, UnavailableError
from common.host import file_lock, plain_file
from common.run.folder import RunFolder
from common.settings.sections import Environment, Network, Optimizer, Settings
from common.settings.toml import override
from learner.record import run_lock as folder
from learner.record.run_lock import LockedRun, create, resume
from tests.helpers.disks import lacking, read_only, small_disk
from tests.helpers.dying import Killed, die_at_call

SETTINGS = Settings(seed=3, environment=Environment(id="X-v0", observation="state", frame_skip=1, frame_stack=1))


def new_run(path: Path, settings: Settings = SETTINGS) -> str:
    run = create(path, settings)
    run.close()
    return run.record.run


def resumed(path: Path, settings: Settings | None) -> LockedRun:
    run = resume(path, settings)
    try:
        run.begin(run.settings)
    except UnavailableError:
        run.close()
        raise
    return run


def test_create(tmp_path: Path) -> None:
    run = create(tmp_path / "runs" / "a", SETTINGS)
    assert re.fullmatch("[0-9a-f]{16}", run.record.run)
    assert run.record.epoch == 1
    assert abs((datetime.now(UTC) - datetime.fromisoformat(run.record.created)).total_seconds()) < 60
    assert run.folder.record() == run.record
    assert run.record.host and {"python", "torch", "gymnasium"} <= run.record.versions.keys()
    assert run.folder.settings() == SETTINGS == run.settings
    assert run.folder.lock_file.read_text() == f"{os.getpid()}\n"
    run.close()


def test_a_run_that_is_to_be_reproducible_does_not_go_on_from_a_checkpoint(tmp_path: Path) -> None:
    words = ("reproducible=true", "staleness.policy=synchronous", "optimizer.device=cpu")
    settings = override(SETTINGS, words)
    new_run(tmp_path / "a", settings)
    for given in (None, settings):
        with pytest.raises(ConfigurationError, match="reproducible = true: a run that is resumed is not the same"):
            resume(tmp_path / "a", given)
    run = resume(tmp_path / "a", override(settings, ["reproducible=false"]))
    run.close()
    assert run.record.epoch == 2


def test_every_run_has_its_own_id(tmp_path: Path) -> None:
    assert new_run(tmp_path / "a") != new_run(tmp_path / "b")


def test_create_takes_an_empty_folder_or_one_with_a_lock_alone(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    new_run(tmp_path)


def test_create_refuses_a_run(tmp_path: Path) -> None:
    number = new_run(tmp_path)
    before = (tmp_path / "run.json").read_bytes()
    message = f"{tmp_path}: holds run {number} already; go on with it with --resume, or choose another --run-dir"
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        create(tmp_path, SETTINGS)
    assert (tmp_path / "run.json").read_bytes() == before


def test_create_refuses_a_folder_with_something_else_in_it_and_leaves_it_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(ConfigurationError, match=r"is not empty and holds no run \(there is thesis\.tex\)"):
        create(tmp_path, SETTINGS)
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]


def test_create_refuses_a_file(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(ConfigurationError, match=r"a: is a file; a run needs a folder"):
        create(tmp_path / "a", SETTINGS)


def test_create_says_why_a_folder_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(ConfigurationError, match=r"a/b: cannot be a run folder: Not a directory"):
        create(tmp_path / "a" / "b", SETTINGS)


def test_a_disk_that_fails_gives_the_lock_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(folder, "replace_file", full)
        with pytest.raises(UnavailableError, match="cannot be used now: No space left on device"):
            create(tmp_path, SETTINGS)
    new_run(tmp_path)


@pytest.mark.parametrize(
    ("number", "new", "old"),
    [
        (errno.ENOSPC, UnavailableError, UnavailableError),
        (errno.EROFS, UnavailableError, UnavailableError),
        (errno.EIO, UnavailableError, UnavailableError),
        (errno.ESTALE, UnavailableError, UnavailableError),
        (errno.EDQUOT, UnavailableError, UnavailableError),
        (errno.EMFILE, UnavailableError, UnavailableError),
        (errno.EACCES, ConfigurationError, UnavailableError),
        (errno.ENAMETOOLONG, ConfigurationError, UnavailableError),
    ],
)
def test_only_what_the_operator_wrote_is_his_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, new: type[A3cdError], old: type[A3cdError]
) -> None:
    new_run(tmp_path / "old")

    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    for name, target in (("open_or_create", plain_file), ("replace_file", folder), ("ftruncate", os)):
        with monkeypatch.context() as patch:
            patch.setattr(target, name, fail)
            with pytest.raises(new, match=re.escape(os.strerror(number))):
                create(tmp_path / "new", SETTINGS)
            with pytest.raises(old, match=re.escape(os.strerror(number))):
                resumed(tmp_path / "old", None)
    new_run(tmp_path / "new")
    resume(tmp_path / "old", None).close()


@pytest.mark.skipif(bool(lacking()), reason=lacking())
def test_a_full_disk_and_one_that_is_read_only(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "64k") as disk:
        disk.fill()
        with pytest.raises(UnavailableError, match="No space left on device"):
            create(disk.path / "run", SETTINGS)
        disk.free()
        new_run(disk.path / "run")
        disk.fill()
        with pytest.raises(UnavailableError, match="No space left on device"):
            resumed(disk.path / "run", None)
        with read_only(disk.path):
            for fail in (lambda: create(disk.path / "other", SETTINGS), lambda: resume(disk.path / "run", None)):
                with pytest.raises(UnavailableError, match="Read-only file system"):
                    fail()
        disk.free()
        run = resume(disk.path / "run", None)
        assert run.record.epoch == 2
        run.close()


def test_a_lock_that_cannot_be_had_is_not_taken_for_another_learner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", fail)
    with pytest.raises(UnavailableError, match="cannot be used now: No locks available"):
        create(tmp_path, SETTINGS)


@pytest.mark.parametrize("calls", range(8))
def test_a_first_start_that_is_killed_is_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    """Dies at every call that brings something to the disk; the same command goes on, as does --resume-or-create."""
    path = tmp_path / "run"
    with monkeypatch.context() as patch:
        die_at_call(patch, ("fsync", "replace"), calls)
        try:
            new_run(path)
            died = False
        except Killed:
            died = True
    assert died == (calls < 6)
    if RunFolder(path).holds_run():
        resume(path, None).close()
    else:
        new_run(path)


def test_settings_of_somebody_else_are_no_killed_start(tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text("seed = 1")
    with pytest.raises(ConfigurationError, match=r"holds no run \(there is settings\.toml\)"):
        create(tmp_path, SETTINGS)
    assert (tmp_path / "settings.toml").read_text() == "seed = 1"


def test_a_run_that_came_between_is_seen_under_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another learner makes and leaves a run after this one looked, before this one has the lock."""
    genuine = folder._lock

    def late(of: RunFolder) -> Any:
        monkeypatch.setattr(folder, "_lock", genuine)
        new_run(tmp_path)
        return genuine(of)

    monkeypatch.setattr(folder, "_lock", late)
    with pytest.raises(ConfigurationError, match="already"):
        create(tmp_path, SETTINGS)


def test_a_folder_has_one_learner(tmp_path: Path) -> None:
    run = create(tmp_path, SETTINGS)
    message = re.escape(f"{tmp_path}: another learner (process {os.getpid()}) is at work here")
    with pytest.raises(UnavailableError, match=message):
        resume(tmp_path, None)
    assert run.folder.record().epoch == 1
    run.close()
    resume(tmp_path, None).close()


def test_a_learner_that_died_holds_no_lock(tmp_path: Path) -> None:
    new_run(tmp_path)
    code = (
        "import os, sys; from pathlib import Path; from learner.record.run_lock import resume;"
        "run = resume(Path(sys.argv[1]), None); os._exit(9)"
    )
    root = Path(__file__).parents[3]
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=root).returncode == 9
    run = resume(tmp_path, None)
    assert run.record.epoch == 2
    run.close()


def test_without_locks_two_learners_are_not_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_lock, "fcntl", None)
    first = create(tmp_path, SETTINGS)
    resume(tmp_path, None).close()
    first.close()


def test_resume_is_a_new_epoch_of_the_same_run(tmp_path: Path) -> None:
    number = new_run(tmp_path)
    for epoch in (2, 3):
        run = resumed(tmp_path, None)
        assert (run.record.run, run.record.epoch, run.settings) == (number, epoch, SETTINGS)
        assert run.folder.record() == run.record
        run.close()


def test_a_run_that_does_not_begin_is_as_it_was(tmp_path: Path) -> None:
    new_run(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    resume(tmp_path, override(SETTINGS, ["optimizer.device=cuda:7"])).close()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_resume_where_there_is_no_run(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(ConfigurationError, match=r"holds no run \(there is no run\.json\)"):
            resume(path, None)
    assert list(tmp_path.iterdir()) == []


def test_resume_with_settings_that_cannot_be_read_keeps_the_epoch(tmp_path: Path) -> None:
    new_run(tmp_path)
    (tmp_path / "settings.toml").write_text("sead = 1")
    with pytest.raises(ConfigurationError, match=r"settings\.toml: sead is no setting; did you mean seed\?"):
        resume(tmp_path, None)
    assert RunFolder(tmp_path).record().epoch == 1


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("environment.id=Y-v0", "environment.id is 'X-v0', not 'Y-v0'"),
        ("environment.options.level=2", "environment.options is {}, not {'level': 2}"),
        ("environment.frame_skip=4", "environment.frame_skip is 1, not 4"),
        ("environment.reward_clip=1", "environment.reward_clip is 0.0, not 1.0"),
        ("network.hidden=[64]", "network.hidden is [128], not [64]"),
        ("network.shared=false", "network.shared is True, not False"),
        ("optimizer.kind=rmsprop", "optimizer.kind is 'adam', not 'rmsprop'"),
    ],
)
def test_resume_refuses_the_settings_of_another_run(tmp_path: Path, assignment: str, message: str) -> None:
    new_run(tmp_path)
    other = override(SETTINGS, [assignment])
    with pytest.raises(ConfigurationError, match=re.escape(f"the run has other settings: {message}; resume with")):
        resume(tmp_path, other)
    assert RunFolder(tmp_path).record().epoch == 1
    assert RunFolder(tmp_path).settings() == SETTINGS
    resume(tmp_path, None).close()


def test_resume_refuses_another_algorithm(tmp_path: Path) -> None:
    new_run(tmp_path)
    algorithm: Any = msgspec.structs.replace(SETTINGS.algorithm, kind="another")
    with pytest.raises(ConfigurationError, match=r"algorithm\.kind is 'a3c', not 'another'"):
        resume(tmp_path, msgspec.structs.replace(SETTINGS, algorithm=algorithm))


def test_resume_names_every_key_that_differs(tmp_path: Path) -> None:
    new_run(tmp_path)
    other = override(SETTINGS, ["environment.id=Y-v0", "network.activation=relu"])
    with pytest.raises(ConfigurationError, match=r"environment\.id is .*; network\.activation is 'tanh', not 'relu'"):
        resume(tmp_path, other)


@pytest.mark.parametrize(
    "assignment",
    [
        "seed=4",
        "environment.num_envs=1",
        "environment.step_seconds=0.5",
        "algorithm.entropy_coef=0.5",
        "optimizer.learning_rate=0.5",
        "limits.frames=1000",
        "scaling.maximum=9",
    ],
)
def test_resume_with_other_settings_keeps_them(tmp_path: Path, assignment: str) -> None:
    new_run(tmp_path)
    other = override(SETTINGS, [assignment])
    run = resumed(tmp_path, other)
    assert run.settings == other == run.folder.settings()
    run.close()


def test_resume_takes_the_resolved_values_of_the_run(tmp_path: Path) -> None:
    environment = Environment(id="X-v0", observation="frames", frame_skip=4, frame_stack=4)
    resolved = Settings(environment=environment, network=Network(kind="conv-a3c"))
    new_run(tmp_path, resolved)
    written = Settings(
        environment=Environment(id="X-v0"), network=Network(kind="auto"), optimizer=Optimizer(epsilon=0.1)
    )
    run = resume(tmp_path, written)
    assert run.settings == msgspec.structs.replace(resolved, optimizer=Optimizer(epsilon=0.1))
    run.close()


@pytest.mark.parametrize(
    ("own", "given", "expected"),
    [
        ("trajectories", "auto", "trajectories"),
        ("gradients", "auto", "gradients"),
        ("auto", "auto", "auto"),
        ("trajectories", "gradients", "gradients"),
    ],
)
def test_resume_keeps_the_exchange_that_auto_was_resolved_to(
    tmp_path: Path, own: str, given: str, expected: str
) -> None:
    new_run(tmp_path, override(SETTINGS, [f"exchange.kind={own}"]))
    run = resumed(tmp_path, override(SETTINGS, [f"exchange.kind={given}"]))
    assert run.settings.exchange.kind == run.folder.settings().exchange.kind == expected
    run.close()


def test_resume_refuses_settings_that_do_not_go_with_the_exchange_of_the_run(tmp_path: Path) -> None:
    new_run(tmp_path, override(SETTINGS, ["exchange.kind=trajectories"]))
    with pytest.raises(ConfigurationError, match="packs nothing with loss"):
        resume(tmp_path, override(SETTINGS, ["exchange.codec=int8"]))


@pytest.mark.parametrize("removable", [True, False])
def test_discard_leaves_an_empty_folder_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, removable: bool
) -> None:
    run = create(tmp_path / "x", SETTINGS)
    if not removable:
        monkeypatch.setattr(Path, "rmdir", _refuse)
    run.discard()
    run.close()
    assert list(tmp_path.rglob("*")) == ([] if removable else [tmp_path / "x"])


def _refuse(_: Path) -> None:
    raise PermissionError


def test_resolved_settings_are_written(tmp_path: Path) -> None:
    run = create(tmp_path, Settings())
    run.begin(SETTINGS)
    assert run.folder.settings() == SETTINGS
    run.close()
