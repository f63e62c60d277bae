from __future__ import annotations

import io
import logging
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import ConfigurationError
from common.host.service import logs
from common.host.service.logs import Limited, LineLimit, Throttle

log = logging.getLogger("a.module")


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_one_line_for_a_person(capsys: pytest.CaptureFixture[str]) -> None:
    logs.setup("learner")
    log.info(logs.line("started", port=5555))
    assert re.fullmatch(r"\d\d:\d\d:\d\d learner  started port=5555\n", capsys.readouterr().err)


def test_level_and_second_setup(capsys: pytest.CaptureFixture[str]) -> None:
    logs.setup("learner")
    logs.setup("actor", logging.WARNING)
    log.info("not heard")
    log.warning("slow")
    assert re.fullmatch(r"\d\d:\d\d:\d\d actor    warning: slow\n", capsys.readouterr().err)


def test_what_the_plotting_library_does_is_heard_when_it_goes_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    logs.setup("learner")
    plotting = logging.getLogger("matplotlib.font_manager")
    plotting.info("generated new fontManager")
    plotting.warning("no font")
    assert re.fullmatch(r"\d\d:\d\d:\d\d learner  warning: no font\n", capsys.readouterr().err)


def test_an_exception_is_one_line_too(capsys: pytest.CaptureFixture[str]) -> None:
    logs.setup("learner")
    try:
        raise ValueError("two\nlines")
    except ValueError:
        log.exception("a\x1b[2J trap")
    (text,) = capsys.readouterr().err.splitlines()
    assert "error: a\\x1b[2J trap | Traceback" in text
    assert text.endswith("ValueError: two | lines")


@pytest.mark.parametrize(
    ("level", "text"),
    [(10, "<7>learner  x"), (20, "<6>learner  x"), (30, "<4>learner  warning: x"), (50, "<2>learner  critical: x")],
)
def test_journal(level: int, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal"
    with path.open("w") as stream:
        status = os.fstat(stream.fileno())
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setenv("JOURNAL_STREAM", f"{status.st_dev}:{status.st_ino}")
        logs.setup("learner", logging.DEBUG)
        log.log(level, "x")
    assert path.read_text() == text + "\n"


def test_an_inherited_journal_that_is_not_stderr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    with path.open("w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setenv("JOURNAL_STREAM", "8:1")
        logs.setup("learner")
        log.info("x")
    assert re.match(r"\d\d:", path.read_text())


def test_a_closed_stderr_raises_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    stream.close()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(logging, "raiseExceptions", False)
    logs.setup("learner")
    log.info("x")


def test_fail_is_one_line_and_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    logs.setup("a3cd")
    assert logs.fail(ConfigurationError("no such thing: 'x'\nwrite y")) == 78
    assert re.fullmatch(r"\S+ a3cd     error: no such thing: 'x' \| write y\n", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("value", "text"), [(1, "k=1"), (0.123456, "k=0.1235"), ("a b", "k='a b'"), ("", "k=''"), ("ab", "k=ab")]
)
def test_line(value: object, text: str) -> None:
    assert logs.line("said", k=value) == f"said {text}"


@given(st.text())
def test_printable_is_one_line(text: str) -> None:
    shown = logs.printable(text)
    assert not re.search(r"[\x00-\x1f\x7f-\x9f]", shown)
    assert logs.printable(shown) == shown


def test_limited_counts_what_it_holds_back() -> None:
    limited = Limited(10.0)
    assert limited.admit("a", 100.0) == 0
    assert limited.admit("b", 100.0) == 0
    assert [limited.admit("a", 100.0 + second) for second in (1, 5, 9.9)] == [None] * 3
    assert limited.admit("a", 110.0) == 3
    assert limited.admit("a", 119.0) is None
    assert limited.admit("a", 120.0) == 1


def test_limited_forgets_the_oldest_key() -> None:
    limited = Limited(1e9)
    for key in range(1000):
        assert limited.admit(key, 0.0) == 0
    assert limited.admit(999, 0.0) is None
    assert limited.admit(0, 0.0) == 0
    assert len(limited._seen) <= 256


def test_limited_keeps_no_long_keys() -> None:
    limited = Limited(1e9)
    for number in range(1000):
        limited.admit(f"{number}" * 10_000, 0.0)
    assert sum(len(str(key)) for key in limited._seen) < 100_000
    assert limited.admit("7" * 9999, 0.0) is None


def test_a_throttle_admits_a_burst_and_then_so_many_a_second() -> None:
    throttle = Throttle(2.0, 5)
    assert [throttle.admit(100.0) for _ in range(7)] == [0] * 5 + [None] * 2
    assert throttle.admit(100.5) == 2
    assert throttle.admit(100.6) is None
    admitted = [throttle.admit(101.0 + number / 1000) for number in range(10_000)]
    lines = [held for held in admitted if held is not None]
    assert 18 <= len(lines) <= 21
    assert sum(lines) + len(lines) == pytest.approx(10_000, abs=1000), "none is forgotten"
    assert [throttle.admit(500.0) for _ in range(6)].count(None) == 1


def test_a_line_that_quotes_a_peer_is_cut() -> None:
    assert logs.cut("short") == "short"
    assert logs.cut("x" * 4096) == "x" * logs.MAX_LINE + "... (4096 characters)"
    assert logs.held_back(0) == ""
    assert "3 more lines" in logs.held_back(3)


def test_lines_that_repeat_and_lines_that_are_many_are_held_back_and_counted() -> None:
    lines = LineLimit(10.0, 1.0, 2)
    assert [lines.admit(0.0, key) for key in ("a", "a", "b", "c", "")] == ["", None, "", None, None]
    assert lines.admit(0.0, "", throttled=False) == ""
    assert lines.admit(20.0, "a") == " (1 more like this since the last) (and 2 more lines held back before this one)"
