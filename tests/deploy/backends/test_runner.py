from __future__ import annotations

import sys
from pathlib import Path

import pytest

from deploy.backends.runner import Answer, Runner, ToolError, last_line
from tests.helpers.programs import alive, until

pytestmark = pytest.mark.usefixtures("nothing_left_behind")
# Its child holds the pipes open, as ssh and sudo do.
SLEEPS = "import os, sys, time; os.fork(); open(sys.argv[1], 'a').write(f'{os.getpid()}\\n'); time.sleep(60)"


def test_what_it_says_and_is_told() -> None:
    script = "import sys; print(sys.argv[1:], sys.stdin.read()); print('hm', file=sys.stderr); sys.exit(3)"
    answer = Runner().run(sys.executable, "-c", script, "$(id) ; x", stdin="said")
    assert (answer.exit_code, answer.out, answer.error) == (3, "['$(id) ; x'] said\n", "hm\n")


def test_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", "/run/notify")
    script = "import os; print(os.environ.get('NOTIFY_SOCKET'), os.environ['LC_ALL'])"
    assert Runner().run(sys.executable, "-c", script).out == "None C\n"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (Answer("p", 1, "out\n", "one\ntwo\n\n"), "p: two (exit code 1)"),
        (Answer("p", 2, "out\n", ""), "p: out (exit code 2)"),
        (Answer("p", -9, "", ""), "p: no message (exit code -9)"),
    ],
)
def test_a_failure_in_one_line(answer: Answer, text: str) -> None:
    with pytest.raises(ToolError) as failed:
        answer.check()
    assert str(failed.value) == text


def test_success_is_its_output() -> None:
    assert Answer("p", 0, "out\n", "warning").check() == "out\n"


def test_one_that_is_not_there() -> None:
    with pytest.raises(ToolError, match=r"^squeue: cannot be run: .*No such file"):
        Runner().run("/nowhere/squeue")


def test_one_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"no answer within 1 s$"):
        Runner(1.0).run(sys.executable, "-c", SLEEPS, str(tmp_path / "pids"))
    pids = [int(line) for line in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 2
    until(lambda: not any(map(alive, pids)))


def test_last_line_is_bounded_and_printable() -> None:
    assert last_line("a\nb\x1b[1m\n\n") == "b\\x1b[1m"
    assert len(last_line("x" * 10_000)) == 500
