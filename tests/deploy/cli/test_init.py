from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from common.run import presets
from common.settings.toml import override, read
from tests.helpers.command_line import a3cd


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_file_holds_what_train_would_take(folder: Path) -> None:
    result = a3cd("init", "CartPole-v1")
    assert result.exit_code == 0
    assert "a3cd train --config run.toml" in result.output
    assert read(folder / "run.toml") == presets.for_environment("CartPole-v1")
    assert a3cd("init", "CartPole-v1", "--algorithm", "ppo", "--set", "seed=4", "--to", "ppo.toml").exit_code == 0
    assert read(folder / "ppo.toml") == override(presets.for_environment("CartPole-v1", "ppo"), ["seed=4"])
    for file in ("run.toml", "ppo.toml"):
        assert a3cd("check-config", "--parse-only", file).exit_code == 0


def test_its_commands_can_be_typed_as_they_stand(folder: Path) -> None:
    result = a3cd("init", "CartPole-v1", "--to", "my run.toml")
    assert "  train     a3cd train --config 'my run.toml'\n  check     a3cd check-config 'my run.toml'" in result.output
    assert "# " + "    a3cd check-config 'my run.toml'" in (folder / "my run.toml").read_text()


def test_an_environment_without_a_preset(folder: Path) -> None:
    (folder / "own_envs.py").write_text("import gymnasium\nclass Grid(gymnasium.Env): pass\n")
    assert a3cd("init", "own_envs.py:Grid", "--to", "x.toml").exit_code == 0
    assert "# There is no preset for it" in (folder / "x.toml").read_text()
    assert read(folder / "x.toml").environment.id == "own_envs:Grid"


def test_on_standard_output(folder: Path) -> None:
    result = a3cd("init", "Blackjack-v1", "--to", "-")
    assert result.stdout.startswith("# Settings of a run of Blackjack-v1.\n")
    assert list(folder.iterdir()) == []


def test_what_is_there_is_kept(folder: Path) -> None:
    (folder / "run.toml").write_text("mine")
    result = a3cd("init", "CartPole-v1")
    assert result.exit_code == 78
    assert "run.toml is there already: remove it, or choose another file with --to" in result.stderr
    assert (folder / "run.toml").read_text() == "mine"


def test_a_full_disk_leaves_no_half_of_it(folder: Path, room: Callable[[int], None]) -> None:
    room(1000)
    result = a3cd("init", "CartPole-v1")
    assert (result.exit_code, result.stdout) == (75, "")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("CartPol-v1",), 78, "did you mean CartPole-v1"),
        (("CartPole-v1", "--to", "no/folder.toml"), 78, "no/folder.toml: No such file or directory; choose another"),
        (("CartPole-v1", "--set", "nothing=1"), 78, "nothing is no setting"),
        (("CartPole-v1", "--to", "/dev/full"), 78, "/dev/full is there already"),
    ],
)
def test_what_cannot_be(words: tuple[str, ...], code: int, text: str, folder: Path) -> None:
    result = a3cd("init", *words)
    assert (result.exit_code, result.stdout) == (code, "")
    assert text in result.stderr
    assert list(folder.iterdir()) == []
