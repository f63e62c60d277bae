"""The command starts with its own modules, whatever the user's are called."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import a3cd
from common.host.modules import ROOMS
from tests.helpers.daemons import BROKEN

SCRIPT = Path(sys.executable).with_name("a3cd")
PAIR = "from broken_environments import *\n"


def test_the_rooms_are_the_same_everywhere() -> None:
    assert a3cd.ROOMS == ROOMS


@pytest.fixture
def crowded(tmp_path: Path) -> dict[str, str]:
    """The environment of a person whose folder, which is on PYTHONPATH, has a module for each name of ours."""
    for room in ROOMS:
        (tmp_path / f"{room}.py").write_text("raise SystemExit('of the user')\n")
    (tmp_path / "own_games.py").write_text(PAIR)
    return os.environ | {"PYTHONPATH": f".{os.pathsep}{BROKEN}", "OMP_NUM_THREADS": "1"}


def test_modules_of_the_user_do_not_take_the_place_of_ours(crowded: dict[str, str], tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import a3cd; a3cd.main()", "presets"]
    done = subprocess.run(command, cwd=tmp_path, env=crowded, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "CartPole-v1" in done.stdout


def test_nor_from_python(crowded: dict[str, str], tmp_path: Path) -> None:
    code = "import a3cd\ntry: a3cd.load('nothing')\nexcept a3cd.ConfigurationError as error: print(error)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=crowded, capture_output=True, text=True)
    assert done.stdout.startswith("nothing: there is no such folder"), done.stderr


def test_a_users_module_that_was_imported_first_is_named(crowded: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "actor.py").write_text("")
    code = "import actor, a3cd"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=crowded, capture_output=True, text=True)
    assert "actor.py was imported as actor, the name of a part of a3cd: rename that file" in done.stderr


def test_what_the_library_gives_is_there() -> None:
    for name in a3cd.__all__:
        assert getattr(a3cd, name).__doc__, name
    assert dir(a3cd) == a3cd.__all__
    with pytest.raises(AttributeError, match="has no attribute nothing"):
        _ = a3cd.nothing


def test_every_package_says_that_it_is_typed() -> None:
    root = Path(a3cd.__file__).parents[1]
    assert [room for room in ("a3cd", *ROOMS) if not (root / room / "py.typed").exists()] == []


@pytest.mark.system
def test_nor_in_the_daemons_that_it_starts(crowded: dict[str, str], tmp_path: Path) -> None:
    if "from a3cd import main" not in SCRIPT.read_text():
        pytest.skip("the script was installed before a3cd.py: make install")
    command = [SCRIPT, "train", "own_games:Counter-v0", "--frames", "300", "--actors", "1", "--run-dir", "run"]
    done = subprocess.run(command, cwd=tmp_path, env=crowded, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "PYTHONPATH=" in done.stdout
    wrong = [SCRIPT, "train", "actor:Counter-v0", "--run-dir", "other"]
    done = subprocess.run(wrong, cwd=tmp_path, env=crowded, capture_output=True, text=True, check=False)
    assert done.returncode == 78
    assert "actor.py cannot be imported, since actor is the name of a part of a3cd" in done.stderr.splitlines()[-1]
