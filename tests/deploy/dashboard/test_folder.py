from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from common.errors import ConfigurationError
from common.host import file_lock
from common.run.folder import RunFolder
from deploy.dashboard.folder import GOES_ON_SECONDS, NO_SETTINGS, FolderReader
from tests.common.host.test_plain_file import link_of_another


def write(file: Path, *rows: dict[str, Any], end: str = "\n") -> None:
    with file.open("a") as opened:
        opened.write("\n".join(json.dumps(row) for row in rows) + end)


def run_folder(path: Path, **summary: Any) -> Path:
    (path / "run.json").write_text(
        '{"run": "ab12", "created": "2026-01-01", "epoch": 2, "a3cd": "0.2.0", "host": "lab"}'
    )
    (path / "settings.toml").write_text('seed = 7\n[environment]\nid = "CartPole-v1"\n')
    write(
        path / "metrics.jsonl",
        *({"time": 9.0 + n, "seconds": float(n), "frames": 10 * n, "actors": 2} for n in range(3)),
    )
    if summary:
        (path / "summary.json").write_text(json.dumps({"epoch": 2} | summary))
    return path


def test_a_run_that_has_ended(tmp_path: Path) -> None:
    reader = FolderReader(
        run_folder(tmp_path, state="reached", frames=20, best_evaluation=None, checkpoint=5, lag_p95=2.0)
    )
    past = reader.past()
    figures = reader.figures()
    assert len(past.history) == 3
    assert "CartPole-v1" in past.settings
    assert (figures["state"], figures["env"], figures["seed"], figures["epoch"]) == ("reached", "CartPole-v1", 7, 2)
    assert (figures["checkpoint"], figures["best_evaluation"], figures["lag_p95"]) == ({"version": 5}, None, 2.0)


def test_a_run_without_a_summary_goes_on_or_was_interrupted(tmp_path: Path) -> None:
    reader = FolderReader(run_folder(tmp_path))
    reader.past()
    assert reader.figures()["state"] == "running"
    long_ago = tmp_path.stat().st_mtime - 2 * GOES_ON_SECONDS
    os.utime(tmp_path / "metrics.jsonl", (long_ago, long_ago))
    assert reader.figures()["state"] == "interrupted"


def test_a_run_whose_learner_is_at_work_goes_on_without_rows(tmp_path: Path) -> None:
    """As while the last evaluation is waited for, or the disk is full."""
    folder = RunFolder(run_folder(tmp_path))
    long_ago = tmp_path.stat().st_mtime - 2 * GOES_ON_SECONDS
    os.utime(folder.metrics_file, (long_ago, long_ago))
    with folder.lock_file.open("a") as held:
        file_lock.lock(held, wait=False)
        assert FolderReader(tmp_path).figures()["state"] == "running"
    assert FolderReader(tmp_path).figures()["state"] == "interrupted"


def test_the_summary_of_an_epoch_before_is_not_of_the_run_as_it_is(tmp_path: Path) -> None:
    reader = FolderReader(run_folder(tmp_path, state="stopped", frames=20, epoch=1))
    reader.past()
    assert reader.figures()["state"] == "running"


def test_the_best_evaluation_and_the_last_one(tmp_path: Path) -> None:
    best = {"best_evaluation": 9.0, "best_evaluation_low": 8.0, "best_evaluation_high": 10.0}
    run_folder(tmp_path, state="finished", frames=100, **best, best_evaluation_episodes=40, best_evaluation_version=3)
    write(
        tmp_path / "metrics.jsonl",
        {"time": 99.0, "seconds": 9.0, "frames": 90, "evaluation_return": 7.0, "evaluation_low": 6.0},
    )
    reader = FolderReader(tmp_path)
    reader.past()
    figures = reader.figures()
    assert figures["best_evaluation"] == {"mean": 9.0, "low": 8.0, "high": 10.0, "episodes": 40, "version": 3}
    assert (figures["evaluation"]["mean"], figures["evaluation"]["low"]) == (7.0, 6.0)


def test_settings_of_another_version_do_not_hide_the_rest(tmp_path: Path) -> None:
    run_folder(tmp_path)
    (tmp_path / "settings.toml").write_text("nonsense = 1\n")
    reader = FolderReader(tmp_path)
    assert reader.past().settings == NO_SETTINGS
    assert reader.figures()["run"] == "ab12"


SECRET = "hunter2"


@pytest.mark.parametrize(
    "content",
    [
        f"-----BEGIN OPENSSH PRIVATE KEY-----\n{SECRET}\n",
        f'password = "{SECRET}"\n',
        f'[network]\nkind = "{SECRET}"\n',
        f"{SECRET} = 1\n",
        f"\xff{SECRET}",
    ],
    ids=["key", "toml", "setting", "name", "no text"],
)
def test_a_link_to_another_file_of_this_user_shows_nothing_of_it(tmp_path: Path, content: str) -> None:
    """The folder may be another user's, who cannot read that file but can read the page."""
    (tmp_path / "other").write_text(content, encoding="latin-1")
    run = tmp_path / "run"
    run.mkdir()
    run_folder(run)
    for name in ("settings.toml", "summary.json"):
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to(tmp_path / "other")
    reader = FolderReader(run)
    assert reader.past().settings == NO_SETTINGS
    assert SECRET not in str(reader.figures())
    (run / "run.json").unlink()
    (run / "run.json").symlink_to(tmp_path / "other")
    with pytest.raises(ConfigurationError, match=r"run\.json") as raised:
        reader.figures()
    assert SECRET not in str(raised.value)


def test_settings_are_shown_as_they_are_understood_not_as_they_are_written(tmp_path: Path) -> None:
    run_folder(tmp_path)
    with (tmp_path / "settings.toml").open("a") as file:
        file.write(f"# {SECRET}\n")
    shown = FolderReader(tmp_path).past().settings
    assert shown.startswith("seed = 7\n")
    assert SECRET not in shown


def test_without_settings_there_are_none_to_show(tmp_path: Path) -> None:
    run_folder(tmp_path)
    (tmp_path / "settings.toml").unlink()
    assert FolderReader(tmp_path).past().settings == ""


@pytest.mark.skipif(os.name != "posix", reason="pipes and devices of POSIX")
@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize("name", ["run.json", "settings.toml", "metrics.jsonl", "summary.json"])
def test_a_pipe_or_a_device_does_not_stop_the_dashboard(tmp_path: Path, name: str, kind: str) -> None:
    run_folder(tmp_path)
    file = tmp_path / name
    file.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(file)
    else:
        file.symlink_to("/dev/zero")
    reader = FolderReader(tmp_path)
    if name == "settings.toml":
        assert reader.past().settings == NO_SETTINGS
    elif name == "summary.json":
        assert reader.figures()["run"] == "ab12"
    else:
        with pytest.raises(ConfigurationError, match="not a regular file"):
            (reader.record if name == "run.json" else reader.past)()


@pytest.mark.skipif(os.name != "posix", reason="owners of POSIX")
def test_rows_are_not_read_by_another_users_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last row is shown whole, and so would be the last line of a file of tokens."""
    run_folder(tmp_path)
    (tmp_path / "metrics.jsonl").unlink()
    link_of_another(tmp_path / "metrics.jsonl", monkeypatch)
    with pytest.raises(ConfigurationError, match=r"metrics\.jsonl: .* another user's link"):
        FolderReader(tmp_path).past()


def test_a_folder_without_a_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="holds no run"):
        FolderReader(tmp_path).record()
