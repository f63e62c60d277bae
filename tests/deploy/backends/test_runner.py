from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from deploy.backends import runner
from deploy.backends.runner import ToolError, last_line, run
from tests.helpers.programs import alive
from tests.helpers.waiting import until

pytestmark = pytest.mark.usefixtures("nothing_left_behind")
# Its child holds its output open, as those of ssh and sudo do.
SLEEPS = "import os, sys, time; os.fork(); open(sys.argv[1], 'a').write(f'{os.getpid()}\\n'); time.sleep(60)"
LEAVES = """
import os, sys, time
child = os.fork()
if child == 0:
    time.sleep(120)
    os._exit(0)
with open(sys.argv[1], "w") as file:
    file.write(str(child))
print("left one")
sys.exit(int(sys.argv[2]))
"""


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
    said = tmp_path / "pids"
    for seconds in (1, 5, 30):  # both may be killed before they have said their pids
        said.write_text("")
        with pytest.raises(ToolError, match=rf"no answer within {seconds} s$"):
            run(sys.executable, "-c", SLEEPS, str(said), seconds=seconds)
        pids = [int(line) for line in said.read_text().split()]
        if len(pids) == 2:
            break
    assert len(pids) == 2
    until(lambda: not any(map(alive, pids)))


@pytest.mark.parametrize("exit_code", [0, 3])
def test_one_that_ends_is_done_whatever_it_leaves_in_the_background(tmp_path: Path, exit_code: int) -> None:
    command = (sys.executable, "-c", LEAVES, str(tmp_path / "pid"), str(exit_code))
    try:
        if exit_code:
            with pytest.raises(ToolError, match=r": left one \(exit code 3\)$"):
                run(*command, seconds=30.0)
        else:
            assert run(*command, seconds=30.0) == "left one\n"
        assert alive(int((tmp_path / "pid").read_text())), "what it left goes on"
    finally:
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


def test_its_output_is_read_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "MOST_BYTES", 8)
    assert run("/bin/sh", "-c", "printf '1234567\\n'; printf 'a long complaint' >&2") == "1234567\n"
    with pytest.raises(ToolError, match=r"^sh: wrote more than 8 bytes$"):
        run("/bin/sh", "-c", "echo 12345678")
    with pytest.raises(ToolError, match=r"^sh: the end \(exit code 1\)$"):
        run("/bin/sh", "-c", "echo 12345678; printf 'far too long\\nthe end' >&2; exit 1")


def test_lines_end_alike() -> None:
    assert run("/bin/sh", "-c", r"printf 'one\r\ntwo\rthree\n\377'") == "one\ntwo\nthree\n\ufffd"


def test_no_room_for_its_output(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(ToolError, match=r"^true: cannot be run: .*No such file"):
        run("true")


def test_last_line_is_bounded_and_printable() -> None:
    assert last_line("a\nb\x1b[1m\n\n") == "b\\x1b[1m"
    assert len(last_line("x" * 10_000)) == 500
