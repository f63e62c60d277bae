from __future__ import annotations

import sys
from pathlib import Path

import pytest

from deploy.backends.runner import ToolError, last_line, run
from tests.helpers.programs import alive, until

pytestmark = pytest.mark.usefixtures("nothing_left_behind")
# Its child holds the pipes open, as ssh and sudo do.
SLEEPS = "import os, sys, time; os.fork(); open(sys.argv[1], 'a').write(f'{os.getpid()}\\n'); time.sleep(60)"


def test_what_it_says_and_is_told() -> None:
    script = "import sys; print(sys.argv[1:], sys.stdin.read()); print('hm', file=sys.stderr)"
    assert run(sys.executable, "-c", script, "$(id) ; x", stdin="said") == "['$(id) ; x'] said\n"


def test_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", "/run/notify")
    script = "import os; print(os.environ.get('NOTIFY_SOCKET'), os.environ['LC_ALL'])"
    assert run(sys.executable, "-c", script) == "None C\n"


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("echo out; printf 'one\\ntwo\\n\\n' >&2; exit 1", "sh: two (exit code 1)"),
        ("echo out; exit 2", "sh: out (exit code 2)"),
        ("echo sh: no such unit >&2; exit 3", "sh: no such unit (exit code 3)"),
        ("kill -9 $$", "sh: no message (exit code -9)"),
    ],
)
def test_a_failure_in_one_line(script: str, text: str) -> None:
    with pytest.raises(ToolError) as failed:
        run("/bin/sh", "-c", script)
    assert str(failed.value) == text


def test_one_that_is_not_there() -> None:
    with pytest.raises(ToolError, match=r"^squeue: cannot be run: .*No such file"):
        run("/nowhere/squeue")


def test_one_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"no answer within 1 s$"):
        run(sys.executable, "-c", SLEEPS, str(tmp_path / "pids"), seconds=1.0)
    pids = [int(line) for line in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 2
    until(lambda: not any(map(alive, pids)))


def test_last_line_is_bounded_and_printable() -> None:
    assert last_line("a\nb\x1b[1m\n\n") == "b\\x1b[1m"
    assert len(last_line("x" * 10_000)) == 500
