from __future__ import annotations

import sys
from pathlib import Path

import pytest

from common.errors import ConfigurationError, EnvironmentMissingError
from common.host import modules
from common.host.modules import bare, check_module, load, log_traceback, module_of


@pytest.mark.parametrize(
    ("named", "module", "name"),
    [
        ("CartPole-v1", "", "CartPole-v1"),
        ("ale_py:ALE/Pong-v5", "ale_py", "ALE/Pong-v5"),
        ("a.package:Class", "a.package", "Class"),
        ("one:two:Id-v0", "one:two", "Id-v0"),
        (":Id-v0", "", "Id-v0"),
    ],
)
def test_the_parts_of_a_name(named: str, module: str, name: str) -> None:
    assert (module_of(named), bare(named)) == (module, name)


def test_a_module_must_be_allowed_by_its_whole_name() -> None:
    check_module("CartPole-v1", ())
    check_module("a.package:Class", {"a.package"})
    for named in ("a.package:Class", "a:Class", "a.package.b:Class"):
        with pytest.raises(ConfigurationError, match=f"for {named}: .* with --allow-module {module_of(named)} if it"):
            check_module(named, {"package", "a.packag"})
    with pytest.raises(ConfigurationError):
        check_module("a.package.b:Class", {"a.package"})


def test_what_loads() -> None:
    assert load("common.host.modules", EnvironmentMissingError).load is load


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("1 / 0\n", "importing given_module failed: ZeroDivisionError: division by zero"),
        ("raise ValueError('one\\n  two')\n", "importing given_module failed: ValueError: one two"),
        ("import no_such_package\n", "no module named no_such_package in this Python's path; install its package, or "),
    ],
)
def test_what_does_not_is_said_in_one_line(
    text: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "given_module.py").write_text(text)
    with pytest.raises(ConfigurationError, match=f"^it: {problem}") as caught:
        load("given_module", lambda why: ConfigurationError(f"it: {why}"))
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is not None


def test_where_an_exception_was_raised_is_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(modules, "_logged", set())
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "failing_twice.py").write_text("x = 1\n\n1 / 0\n")
    caplog.set_level("INFO")
    for _ in range(2):
        with pytest.raises(ConfigurationError):
            load("failing_twice", ConfigurationError)
    assert [line for line in caplog.messages if 'failing_twice.py", line 3' in line] == [
        f'  File "{tmp_path}/failing_twice.py", line 3, in <module>'
    ]
    assert "ZeroDivisionError: division by zero" in caplog.messages


def test_only_so_many_tracebacks_are_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(modules, "_logged", {("", "", number) for number in range(modules.MOST_TRACEBACKS)})
    log_traceback(ValueError("one more"))
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("actor", ""),
        ("own_games", "import actor\nactor.Grid\n"),
        ("own_games", "from actor import Grid\n"),
        ("own_games", "import actor.grids\n"),
    ],
)
def test_a_file_with_the_name_of_a_part_of_ours_is_named_with_the_cure(
    module: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "actor.py").touch()
    (tmp_path / "own_games.py").write_text(text)
    with pytest.raises(ConfigurationError, match=r"actor\.py cannot be imported, since .* of a3cd: rename that"):
        load(module, ConfigurationError)
    sys.modules.pop("own_games", None)
