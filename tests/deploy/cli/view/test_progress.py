from collections.abc import Callable
from io import StringIO

import pytest

from common.run.status import RunStatus
from deploy.cli.view import progress as view
from deploy.cli.view.progress import LINE_SECONDS, MAX_POINTS, History, Lines, Panel, open_view


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def strftime(self, form: str) -> str:
        return "12:34:56"


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(view, "time", clock)
    return clock


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    for name, value in (("TERM", "xterm"), ("COLUMNS", "80"), ("LINES", "24")):
        monkeypatch.setenv(name, value)
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    return Terminal()


def test_lines_come_soon_at_first_and_then_every_few_seconds(
    clock: Clock, run_status: Callable[..., RunStatus]
) -> None:
    stream, times = StringIO(), []
    lines = Lines(stream, clock.now)
    for tenth in range(300):
        clock.now = 100.0 + tenth / 10
        before = stream.tell()
        lines.show(run_status())
        if stream.tell() != before:
            times.append(tenth / 10)
    assert times == [1.0, 2.0, 4.0, 8.0, 13.0, 18.0, 23.0, 28.0]
    assert stream.getvalue().startswith("12:34:56  frames 1,204,320  return 87.3  ")


def test_after_a_silence_there_is_one_line_not_several(clock: Clock, run_status: Callable[..., RunStatus]) -> None:
    stream = StringIO()
    lines = Lines(stream, clock.now)
    clock.now += 1000.0
    lines.show(run_status())
    clock.now += LINE_SECONDS - 0.1
    lines.show(run_status())
    assert stream.getvalue().count("\n") == 1


def test_a_warning_is_a_line_once(clock: Clock, run_status: Callable[..., RunStatus]) -> None:
    stream = StringIO()
    lines = Lines(stream, clock.now)
    for warnings in (["a\x1bb"], ["a\x1bb", "c"], ["c"], ["c"]):
        lines.show(run_status(warnings=warnings))
    assert stream.getvalue().splitlines() == ["warning: a\\x1bb", "warning: c"]


def test_where_the_learners_own_lines_are_shown_its_warnings_are_not_repeated(
    run_status: Callable[..., RunStatus],
) -> None:
    stream = StringIO()
    with open_view(stream, warnings=False) as opened:
        opened.show(run_status(warnings=["a"]))
    assert stream.getvalue() == ""


def test_what_is_no_terminal_gets_lines(run_status: Callable[..., RunStatus]) -> None:
    stream = StringIO()
    with open_view(stream) as opened:
        assert isinstance(opened, Lines)
        opened.say("hello")
    assert stream.getvalue() == "hello\n"


def test_a_terminal_gets_the_panel_redrawn_in_place(terminal: Terminal, run_status: Callable[..., RunStatus]) -> None:
    with open_view(terminal) as opened:
        assert isinstance(opened, Panel)
        opened.show(run_status(frames=1_111_111))
        opened.say("[red]a daemon's\x1b line")
        opened.show(run_status(frames=2_222_222))
    written = terminal.getvalue()
    assert "1,111,111" in written
    assert "[red]a daemon's\\x1b line" in written
    assert "\x1b[1A\x1b[2K" in written, "the cursor goes up and lines are drawn over"
    assert "\x1b[2J" not in written, "the screen is never cleared"
    assert max(len(part.splitlines()) for part in written.split("╭")[1:]) <= 24 + 1


@pytest.mark.parametrize(("name", "value"), [("TERM", "dumb"), ("COLUMNS", "40"), ("LINES", "10")])
def test_a_terminal_too_small_or_dumb_gets_lines(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with open_view(terminal) as opened:
        assert isinstance(opened, Lines)


def test_remembers_the_course_of_the_return(run_status: Callable[..., RunStatus]) -> None:
    history = History()
    for value in (None, 1.0, 2.0):
        history.add(run_status(mean_return=value))
    assert history.returns == [1.0, 2.0]


def test_the_whole_course_stays_in_bounded_memory(run_status: Callable[..., RunStatus]) -> None:
    history = History()
    for value in range(20 * MAX_POINTS):
        history.add(run_status(mean_return=float(value)))
    assert MAX_POINTS / 2 <= len(history.returns) < MAX_POINTS
    steps = {later - earlier for earlier, later in zip(history.returns, history.returns[1:], strict=False)}
    assert (history.returns[0], len(steps)) == (0.0, 1)
    assert history.returns[-1] > 19 * MAX_POINTS
