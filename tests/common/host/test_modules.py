from __future__ import annotations

import sys
from pathlib import Path

import pytest

from common.errors import ConfigurationError, EnvironmentMissingError
from common.host import modules
from common.host.modules import bare, canonical, check_module, findable, load, log_traceback, missing, module_of


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
        ("import sys\nsys.exit()\n", "importing given_module would end a3cd .exit code None.: it is also a script"),
        ("import no_such_package\n", "given_module imports no_such_package, which is not installed here"),
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


@pytest.fixture
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With files of one's own, as a person has who has just begun."""
    (tmp_path / "below").mkdir()
    (tmp_path / "own_file.py").write_text("import own_sibling\nclass Grid: pass\n")
    (tmp_path / "own_sibling.py").touch()
    (tmp_path / "below" / "deep_file.py").touch()
    (tmp_path / "with-dash.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


@pytest.mark.parametrize(
    ("written", "named"),
    [
        ("own_file.py:Grid", "own_file:Grid"),
        ("./own_file.py:Grid-v0", "own_file:Grid-v0"),
        ("below/../own_file.py:Grid", "own_file:Grid"),
        ("below/deep_file.py:Grid", "below.deep_file:Grid"),
        ("own_file:Grid", "own_file:Grid"),
        ("CartPole-v1", "CartPole-v1"),
        ("ALE/Pong-v5", "ALE/Pong-v5"),
    ],
)
def test_a_file_is_a_module_of_the_working_folder(working_folder: Path, written: str, named: str) -> None:
    assert canonical(written) == named
    assert canonical(str(working_folder / "own_file.py:Grid")) == "own_file:Grid"


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        (
            "own_file.py",
            "own_file.py: which of its classes\\? write own_file.py:NAME, or an id that it registers; it has Grid",
        ),
        ("own_fil.py:Grid", "there is no file .*own_fil.py; did you mean own_file.py?"),
        ("../own_file.py:Grid", "it is not below .*: go to its folder, and write own_file.py:Grid"),
        ("with-dash.py:Grid", "Python cannot import 'with-dash': rename it"),
    ],
)
def test_a_file_that_cannot_be_one_is_named_with_the_cure(working_folder: Path, written: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        canonical(written)


def test_the_working_folder_is_searched_last_and_only_for_who_is_named(working_folder: Path) -> None:
    before = list(sys.path)
    (working_folder / "json.py").write_text("1 / 0\n")
    assert load("json", ConfigurationError).__name__ == "json"
    assert sys.path == before, "nothing of the folder was needed"
    assert [findable(one) for one in ("own_file", "below.deep_file", "json", "not_there", "")] == [True] * 3 + [
        False
    ] * 2
    assert sys.path == before
    module = load("own_file", ConfigurationError)
    assert module.own_sibling.__file__ == str(working_folder / "own_sibling.py")
    assert sys.path == [*before, str(working_folder)]
    for name in ("own_file", "own_sibling"):
        del sys.modules[name]


def test_what_is_missing_is_said_with_what_is_there(working_folder: Path) -> None:
    with pytest.raises(
        ConfigurationError, match=f"no module named own_fille .* {working_folder}: did you mean own_file"
    ):
        load("own_fille", ConfigurationError)
    with pytest.raises(
        ConfigurationError, match=r"start a3cd in the folder with zzz\.py \(each host with actors needs"
    ):
        load("zzz", ConfigurationError)
    (working_folder / "json.py").touch()
    assert "not the file here, which has the same name: rename yours" in missing(sys.modules["json"], "Grid", "it", ())
    told = missing(sys.modules["sys"], "Gird", "environment", ["Grid", "Other"])
    assert told == "sys (built in) has no environment Gird; did you mean Grid?"
    assert missing(sys.modules["sys"], "x", "network", ["Grid", "A"]).endswith("has no network x; it has A, Grid")
