"""`a3cd keys`, as it is typed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from common.host.security import access, allowed
from common.host.security.credential import Credential
from common.host.security.keys import KeyPair
from tests.helpers.command_line import a3cd

LEARNER = "tcp://gpu-box:5555"


def keys(folder: Path, *arguments: object, code: int = 0) -> str:
    result = a3cd("keys", "--keys", folder, *arguments)
    assert result.exit_code == code, result.output
    return result.output.strip()


def test_a_pair_is_made_and_shown(tmp_path: Path) -> None:
    public = keys(tmp_path, "new", "learner")
    assert keys(tmp_path, "show") == keys(tmp_path, "show", "learner") == public
    assert KeyPair.read(tmp_path / "learner.key").public == public
    assert "exists" in keys(tmp_path, "new", "learner", code=78)
    assert "is no name" in keys(tmp_path, "new", "../x", code=78)


def test_allow_list_and_revoke(tmp_path: Path) -> None:
    public = keys(tmp_path / "peer", "new", "lab7")
    assert "lab7 is allowed:" in keys(tmp_path, "allow", tmp_path / "peer" / "lab7.key", "--name", "lab7")
    assert "lab7 is allowed already:" in keys(tmp_path, "allow", public, "--name", "lab7")
    assert keys(tmp_path, "list") == f"{public} lab7"
    assert "lab7 is not allowed any more" in keys(tmp_path, "revoke", "lab7")
    assert keys(tmp_path, "list") == ""
    assert "is not in" in keys(tmp_path, "revoke", "lab7", code=78)


def test_a_key_with_which_one_can_only_look(tmp_path: Path) -> None:
    keys(tmp_path, "new", "learner")
    assert keys(tmp_path, "invite", "screen", "--learner", LEARNER, "--role", "observer").startswith("a3cd status '")
    assert keys(tmp_path, "list").endswith(" screen observer")
    judge = keys(tmp_path, "invite", "judge", "--learner", LEARNER, "--role", "evaluator")
    assert judge.startswith("a3cd evaluator '")
    assert keys(
        tmp_path, "invite", "lab7", "--learner", LEARNER, "--role", "observer", "--role", "launcher"
    ).startswith("a3cd launcher '")
    assert keys(tmp_path, "list").endswith(" lab7 launcher,observer")


def test_an_operators_key_is_one_only_if_that_is_said_and_pasting_its_line_orders_nothing(tmp_path: Path) -> None:
    keys(tmp_path, "new", "learner")
    invite = ("invite", "boss", "--learner", LEARNER, "--role", "operator")
    assert keys(tmp_path, *invite).startswith("a3cd keys accept '")
    assert keys(tmp_path, "list").endswith(" boss operator")
    keys(tmp_path, "revoke", "boss")
    assert keys(tmp_path, *invite, "--role", "observer").startswith("a3cd status '")
    assert keys(tmp_path, "list").endswith(" boss observer,operator")
    keys(tmp_path, "revoke", "boss")
    keys(tmp_path, "invite", "lab7", "--learner", LEARNER)
    assert keys(tmp_path, "list").endswith(" lab7")
    assert "operator" not in allowed.read(tmp_path / "allowed").popitem()[1].roles


@pytest.mark.parametrize("start", ["-", "--", "-h"])
def test_a_key_may_begin_like_an_option(tmp_path: Path, start: str) -> None:
    key = start + KeyPair.generate("a").public[len(start) :]
    assert "lab7 is allowed:" in keys(tmp_path, "allow", key, "--name", "lab7")
    assert keys(tmp_path, "list") == f"{key} lab7"
    assert "lab7 is not allowed any more" in keys(tmp_path, "revoke", key)


def test_one_line_lets_a_host_in(tmp_path: Path) -> None:
    told = keys(tmp_path, "invite", "lab7", "--learner", LEARNER, code=78)
    assert f"`a3cd keys --keys {tmp_path} new learner` makes it" in told
    assert access.keys_command(access.default_folder()) == "a3cd keys"
    own = keys(tmp_path, "new", "learner")
    command, invitation = keys(tmp_path, "invite", "lab7", "--learner", LEARNER).split(" '")
    assert command == "a3cd actor"
    invited = Credential.from_invitation(invitation.rstrip("'"))
    assert (str(invited.learner), invited.learner_key, invited.pair.name) == (LEARNER, own, "lab7")
    assert allowed.read(tmp_path / "allowed") == {invited.pair.public: allowed.Allowed("lab7")}
    assert "with another key" in keys(tmp_path, "invite", "lab7", "--learner", LEARNER, code=78)

    said = keys(tmp_path / "host", "accept", invitation.rstrip("'"))
    assert said.endswith(f"need only {LEARNER} --keys {tmp_path / 'host'} now")
    kept = access.find(invited.learner, folder=tmp_path / "host")
    assert kept.credential == invited
    assert "is not whole" in keys(tmp_path / "host", "accept", f"{LEARNER}#x", code=78)


@pytest.mark.parametrize("tcp", [True, False])
def test_a_daemon_takes_an_invitation_and_hides_it(
    tcp: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stand: object
) -> None:
    keys(tmp_path, "new", "learner")
    invitation = keys(tmp_path, "invite", "lab7", "--learner", LEARNER).split("'")[1]
    if not tcp:
        invitation = invitation.removeprefix("tcp://")
    begun: list[list[str]] = []
    monkeypatch.setattr("sys.orig_argv", ["python", "-P", "a3cd", "actor", invitation, f"--x={invitation}", "a#b"])
    monkeypatch.setattr(os, "execv", lambda _, words: begun.append(words))
    stand("actor.daemon.run", 0)  # type: ignore[operator]
    assert a3cd("actor", invitation, "--keys", tmp_path / "host").exit_code == 0
    if os.name == "posix":
        plain = invitation.partition("#")[0]
        assert begun == [[sys.executable, "-P", "a3cd", "actor", plain, f"--x={plain}", "a#b"]]
    assert (tmp_path / "host" / "gpu-box_5555.credential").exists()
    assert a3cd("actor", "nonsense:::#token").exit_code == 2
