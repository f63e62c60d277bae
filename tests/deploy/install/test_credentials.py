from __future__ import annotations

from pathlib import Path

import pytest

from common.errors import ConfigurationError, UnavailableError
from common.host.addresses import Address
from common.host.security import allowed
from common.host.security.credential import Credential
from common.host.security.keys import KeyPair
from deploy.install.credentials import credential_file, here, key_name, there
from deploy.install.layout import SYSTEM, USER
from tests.deploy.install.conftest import Fake

AT = Address("gpu-box", 5555)


def test_the_step_that_puts_it_there() -> None:
    asked = []

    def make(host: str) -> bytes:
        asked.append(host)
        return b"secret"

    step = credential_file(SYSTEM, "root@h2.lab", AT, make)
    assert (step.path, step.mode, step.keep) == ("/etc/a3cd/keys/gpu-box_5555.credential", 0o600, True)
    assert step.plain()["digest"] == ""
    assert asked == []
    with step.content() as (content, _):
        assert content.read() == b"secret"
    assert asked == ["h2.lab"]


@pytest.mark.parametrize(("target", "name"), [("root@h2", "h2"), ("h2", "h2"), ("a@fe80::1", "fe80--1")])
def test_names(target: str, name: str) -> None:
    assert key_name(target) == name


def test_made_in_the_key_folder_here(tmp_path: Path) -> None:
    own = KeyPair.generate("learner")
    own.write(tmp_path / "learner.key")
    make = here(AT, tmp_path)
    (tmp_path / "first").write_bytes(make("h2"))
    (tmp_path / "second").write_bytes(make("h2"))  # it lost the first
    for name in ("first", "second"):
        (tmp_path / name).chmod(0o600)
    second = Credential.read(tmp_path / "second")
    assert (second.learner, second.learner_key, second.pair.name) == (AT, own.public, "h2")
    assert allowed.read(tmp_path / "allowed") == {second.pair.public: "h2"}
    assert Credential.read(tmp_path / "first").pair.public != second.pair.public


def test_no_key_folder_here(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="--invite-from USER@HOST"):
        here(AT, tmp_path)


def test_made_on_the_learners_host(fake: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    credential = Credential(AT, KeyPair.generate("learner").public, KeyPair.generate("h2"))
    program = tmp_path / ".local/share/a3cd/bin/a3cd"
    program.parent.mkdir(parents=True)
    line = f"a3cd actor '{credential.invitation()}'"
    program.write_text(f'#!/bin/sh\necho "$*" >> "$FAKE_LOG"\necho "{line}"\n')
    program.chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert there(AT, fake.way, USER)("h2") == credential.text().encode()
    assert [call for call in fake.calls if call.startswith("keys")] == [
        f"keys --keys {tmp_path}/.config/a3cd/keys revoke h2",
        f"keys --keys {tmp_path}/.config/a3cd/keys invite h2 --learner tcp://gpu-box:5555",
    ]
    assert all("gpu-box" not in call for call in fake.calls if call.startswith("ssh"))


@pytest.mark.parametrize(("program", "why"), [("exit 3", "no invitation"), ("echo nonsense", "is no address")])
def test_no_invitation_from_there(fake: Fake, program: str, why: str) -> None:
    fake.put("ssh", f"#!/bin/sh\n{program}\n")
    with pytest.raises(UnavailableError, match=f"^root@box: .*{why}"):
        there(AT, fake.way, SYSTEM)("h2")
