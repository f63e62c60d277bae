from __future__ import annotations

import ast
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from deploy.install import far
from deploy.install.step import Absent, Command, File, Folder, Step, at


def converse(folder: Path, *steps: Step, act: bool = True, content: bytes = b"", **needs: Any) -> list[dict[str, Any]]:
    """One conversation; every file is sent `content`."""
    plain = [step.plain() | ({"bytes": len(content)} if isinstance(step, File) and act else {}) for step in steps]
    asked = {"python": [3, 11], "root": False} | needs
    request = json.dumps({"root": str(folder), "act": act, "needs": asked, "steps": plain}).encode()
    files = b"".join(content for step in steps if isinstance(step, File) and act)
    outlet = io.StringIO()
    code = far.main(io.BytesIO(b"%d\n%b%b" % (len(request), request, files)), outlet)
    answers = [json.loads(line) for line in outlet.getvalue().splitlines()]
    assert (code == 0) == all(answer["state"] != "failed" for answer in answers)
    return answers


def states(*given: Any, **options: Any) -> list[str]:
    return [answer["state"] for answer in converse(*given, **options)]


@pytest.fixture(autouse=True)
def _systemctl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    monkeypatch.setattr("os.umask", lambda mask: 0)


def test_folder(tmp_path: Path) -> None:
    step = Folder("/a/b", 0o711)
    assert states(tmp_path, step, act=False) == ["due"]
    assert not (tmp_path / "a").exists()
    assert states(tmp_path, step) == ["done"]
    assert (tmp_path / "a/b").stat().st_mode & 0o777 == 0o711
    assert states(tmp_path, step) == ["good"]
    assert states(tmp_path, Folder("/a/b")) == ["good"]


def test_file(tmp_path: Path) -> None:
    step = File("/x", b"one", mode=0o600)
    assert states(tmp_path, step, content=b"one") == ["done"]
    assert ((tmp_path / "x").read_bytes(), (tmp_path / "x").stat().st_mode & 0o777) == (b"one", 0o600)
    assert states(tmp_path, step, content=b"one") == ["good"]
    (tmp_path / "x").chmod(0o644)
    (tmp_path / ".x.partial").touch()  # of a connection that broke
    assert states(tmp_path, step, content=b"one") == ["done"]
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_a_file_that_came_meanwhile_does_not_put_the_next_out_of_step(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"same")
    steps = File("/x", b"same"), File("/y", b"same")
    assert states(tmp_path, *steps, content=b"same") == ["good", "done"]
    assert (tmp_path / "y").read_bytes() == b"same"


def test_a_file_to_keep(tmp_path: Path) -> None:
    step = File("/x", lambda: b"new", keep=True)
    assert states(tmp_path, step, content=b"new") == ["done"]
    (tmp_path / "x").write_bytes(b"edited")
    assert states(tmp_path, step, content=b"new") == ["good"]
    assert (tmp_path / "x").read_bytes() == b"edited"


def test_a_connection_that_ends_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"old")
    plain = File("/x", b"new").plain() | {"bytes": 3}
    with pytest.raises(far.StepError, match="ended in the middle of a file"):
        far.take(far.Host(str(tmp_path), io.BytesIO(b"ne")), plain, True)
    assert (tmp_path / "x").read_bytes() == b"old"


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_absent(tmp_path: Path, kind: str) -> None:
    path, other = tmp_path / "x", tmp_path / "other"
    other.mkdir()
    if kind == "link":
        path.symlink_to(other)
    elif kind == "file":
        path.touch()
    else:
        (path / "y").mkdir(parents=True)
    assert states(tmp_path, Absent("/x")) == ["done"]
    assert list(tmp_path.iterdir()) == [other]
    assert states(tmp_path, Absent("/x")) == ["good"]


@pytest.mark.parametrize(
    ("unless", "state"),
    [
        ({}, "done"),
        ({"exists": "/there"}, "good"),
        ({"exists": "/there", "absent": "/there"}, "done"),
        ({"absent": "/nowhere"}, "good"),
        ({"succeeds": ["true"]}, "good"),
        ({"succeeds": ["false"]}, "done"),
        ({"succeeds": ["no-such-program"]}, "done"),
        ({"prints": [["printf", "a\nb\n"], ["a", "b"]]}, "good"),
        ({"prints": [["printf", "a\nc\n"], ["a", "b"]]}, "done"),
        ({"prints": [["true"], ["a"]]}, "done"),
        ({"unchanged": ["file /there"]}, "good"),
        ({"unchanged": ["file /changed"]}, "done"),
    ],
)
def test_conditions_of_a_command(tmp_path: Path, unless: dict[str, Any], state: str) -> None:
    (tmp_path / "there").write_bytes(b"x")
    steps = File("/there", b"x"), File("/changed", b"x"), Command("c", ["true"], unless)
    assert states(tmp_path, *steps, content=b"x")[-1] == state


def test_a_command_is_marked_once_it_has_succeeded(tmp_path: Path) -> None:
    marked = {"marked": ["/mark", "2"]}
    assert states(tmp_path, Command("c", ["false"], marked)) == ["failed"]
    assert not (tmp_path / "mark").exists()
    assert states(tmp_path, Command("c", ["true"], marked)) == ["done"]
    assert states(tmp_path, Command("c", ["false"], marked)) == ["good"]
    assert states(tmp_path, Command("c", ["true"], {"marked": ["/mark", "3"]}), act=False) == ["due"]


def test_what_a_command_prints(tmp_path: Path) -> None:
    (said,) = converse(tmp_path, Command("c", ["echo", at("/x")], tell=True))
    assert said["text"] == str(tmp_path / "x")
    (quiet,) = converse(tmp_path, Command("c", ["echo", "x"]))
    assert quiet["text"] == ""


def test_the_first_step_that_fails_is_the_last(tmp_path: Path) -> None:
    answers = converse(tmp_path, Command("c", ["no-such-program"]), Folder("/x"))
    assert [answer["text"] for answer in answers] == [
        "no-such-program: exit code 127: no-such-program: No such file or directory"
    ]
    assert not (tmp_path / "x").exists()


def test_what_a_host_may_lack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (old,) = converse(tmp_path, Folder("/x"), python=[99, 1])
    assert f"{sys.executable} is Python 3." in old["text"]
    assert old["text"].endswith("a3cd needs 99.1: name one with --python")
    monkeypatch.setattr("os.getuid", lambda: 1000)
    (other,) = converse(tmp_path, Folder("/x"), root=True)
    assert other["text"].startswith("only root may install system units")
    monkeypatch.setattr("shutil.which", lambda name: None)
    (bare,) = converse(tmp_path, Folder("/x"))
    assert bare["text"] == "there is no systemctl: this host does not run systemd"
    assert not (tmp_path / "x").exists()


def test_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    assert far.Host("", io.BytesIO()).path("~/x") == Path("/home/someone/x")
    assert far.Host(str(tmp_path), io.BytesIO()).path("~/x") == tmp_path / "home/someone/x"


def test_an_old_python_reads_it_far_enough_to_say_that_it_is_old() -> None:
    ast.parse(Path(far.__file__).read_text(), feature_version=(3, 7))
