from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from common.host import versions as module
from common.host.versions import commit, versions


def test_what_this_process_runs_on(monkeypatch: pytest.MonkeyPatch) -> None:
    found = versions()
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert found["torch"] == torch.__version__.partition("+")[0] or found["torch"] == torch.__version__
    monkeypatch.setattr(module, "PACKAGES", ("no-such-package",))
    assert list(versions()) == ["python"]


def test_others_are_looked_for_where_they_are_asked_for() -> None:
    assert versions("psutil", "no-such-package").keys() - versions().keys() == {"psutil"}


def git(folder: Path, *words: str) -> str:
    author = ("-c", "user.name=a", "-c", "user.email=a@b")
    command = ("git", "-C", str(folder), *author, *words)
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_the_commit_of_a_clone_says_whether_files_were_changed_since(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("one")
    git(tmp_path, "init", "--quiet")
    assert commit(tmp_path) == "", "there is none yet"
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "--quiet", "--message", "one")
    git(tmp_path, "tag", "--annotate", "v1", "--message", "v1")
    hash_ = git(tmp_path, "rev-parse", "HEAD")
    assert commit(tmp_path) == hash_ and len(hash_) == 40
    file.write_text("two")
    assert commit(tmp_path) == f"{hash_}-dirty"


@pytest.mark.parametrize(
    ("origin", "found"),
    [
        (json.dumps({"url": "https://x", "vcs_info": {"vcs": "git", "commit_id": "abc"}}), "abc"),
        (json.dumps({"url": "file:///x", "dir_info": {}}), ""),
        (None, ""),
        ("{", ""),
    ],
)
def test_what_pip_installed_from_a_repository_says_which_commit(
    origin: str | None, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Installed:
        def read_text(self, name: str) -> Any:
            assert name == "direct_url.json"
            return origin

    monkeypatch.setattr(module, "distribution", lambda name: Installed())
    assert commit(tmp_path) == found
