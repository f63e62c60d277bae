"""`a3cd completion`, and what a shell gets when it asks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.cli.command import cli
from deploy.cli.completion import SHELLS, Bash
from tests.helpers.command_line import a3cd
from tests.test_tree import HEAVY, ROOT

ASKED = (
    f"import atexit, sys; sys.path.insert(0, {str(ROOT)!r}); sys.argv[:] = ['a3cd']\n"
    "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
    "from deploy.cli.command import main; main()"
)


def asked(*words: str) -> list[str]:
    """What bash would be told, by our own class in this process; the last word is that which is typed."""
    bash = Bash(cli, {}, "a3cd", "_A3CD_COMPLETE")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COMP_WORDS", "\n".join(("a3cd", *words)))
        patch.setenv("COMP_CWORD", str(len(words)))
        return [line.partition(",")[2] for line in bash.complete().splitlines()]


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_of_each_shell(shell: str) -> None:
    result = a3cd("completion", shell)
    assert result.exit_code == 0
    assert result.output.startswith("# For ~/.")
    assert f"_A3CD_COMPLETE={shell}_complete" in result.output
    assert a3cd("completion", "cmd").exit_code == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("compl",), ["completion"]),
        (("train", "CartP"), ["CartPole-v1"]),
        (("train", "--no-c"), ["--no-curve"]),
        (("train", "X", "--set", "optimizer.k"), ["optimizer.kind="]),
        (("train", "X", "--set", "optimizer.kind", "="), ["adam", "rmsprop", "sgd"]),
        (("train", "X", "--set", "optimizer.kind", "=", "a"), ["adam"]),
        (("train", "X", "--set", "=", "optimizer.kind", "=", "a"), ["adam"]),
        (("train", "X", "--algorithm", "pp"), ["ppo"]),
        (("launcher", "localhost", "--start-with", "ss"), ["ssh"]),
        (("launcher", "tcp", "://", "localhost", ":", "5555", "--start-with", "ss"), ["ssh"]),
        (("presets", "show", "Pend"), ["Pendulum-v1"]),
        (("init", "Pend"), ["Pendulum-v1"]),
    ],
)
def test_bash_is_told_what_it_has_to_add_to_its_own_words(words: tuple[str, ...], told: list[str]) -> None:
    assert asked(*words) == told


def test_a_class_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text("class Grid: pass\n")
    assert asked("train", "own.py", ":", "G") == asked("train", "own.py", ":") == ["Grid"]


@pytest.mark.parametrize("words", ["train C", "train X --set opt", "evaluate runs", "dep"])
def test_an_answer_loads_nothing_that_takes_long(words: str) -> None:
    environment = os.environ | {"_A3CD_COMPLETE": "bash_complete", "COMP_WORDS": f"a3cd {words}"}
    environment["COMP_CWORD"] = str(len(words.split()))
    done = subprocess.run([sys.executable, "-I", "-c", ASKED], env=environment, capture_output=True, text=True)
    loaded = set(done.stderr.splitlines()[-1].split())
    assert "deploy.cli.completion" in loaded
    assert loaded & HEAVY == set()
    assert done.stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_a_bash_takes_the_script_and_a_space_follows_no_equals_sign(tmp_path: Path) -> None:
    program = tmp_path / "a3cd"
    program.write_text("#!/bin/sh\necho plain,optimizer.kind=\n")
    program.chmod(0o755)
    script = (
        f"{a3cd('completion', 'bash').output}\n"
        'compopt() { echo "compopt $*"; }; COMP_WORDS=(a3cd train o); COMP_CWORD=2; COMPREPLY=(); '
        '_a3cd_completion a3cd; echo "${COMPREPLY[@]}"; complete -p a3cd'
    )
    environment = os.environ | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True)
    assert done.stderr == ""
    assert "nospace" in done.stdout and "optimizer.kind=\n" in done.stdout
    assert done.stdout.splitlines()[-1].endswith("-F _a3cd_completion a3cd")
