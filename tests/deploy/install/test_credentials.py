from __future__ import annotations

from pathlib import Path

import pytest

from common.errors import ConfigurationError, UnavailableError
from common.host.addresses import Address
from common.host.security import allowed
from common.host.security.credential import Credential
from common.host.security.keys import KeyPair
from deploy.install.credentials import here, there
from deploy.install.payload import SYSTEM, USER
from tests.deploy.install.conftest import Fake

AT = Address("gpu-box", 5555)


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
    assert allowed.read(tmp_path / "allowed") == {second.pair.public: allowed.Allowed("h2")}
    assert Credential.read(tmp_path / "first").pair.public != second.pair.public


def test_no_key_folder_here(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="--invite-from USER@HOST"):
        here(AT, tmp_path)


def test_made_on_the_learners_host(fake: Fake, caplog: pytest.LogCaptureFixture) -> None:
    credential = Credential(AT, KeyPair.generate("learner").public, KeyPair.generate("h2"))
    program = fake.root / "home/.local/share/a3cd/bin/a3cd"
    program.parent.mkdir(parents=True)
    line = f"a3cd actor '{credential.invitation()}'"
    program.write_text(f'#!/bin/sh\necho "$*" >> "$FAKE_LOG"\necho "{line}"\n')
    program.chmod(0o755)
    assert there(AT, fake.target, USER)("h2") == credential.text().encode()
    assert caplog.messages[0].startswith("the key that h2 had before is revoked")
    keys = f"keys --keys {fake.root}/home/.config/a3cd/keys"
    assert [call for call in fake.calls if call.startswith("keys")] == [
        f"{keys} revoke h2",
        f"{keys} invite h2 --learner tcp://gpu-box:5555",
    ]
    there(AT, fake.target, USER, ("relay",))("h2-relay")
    assert f"{keys} invite h2-relay --learner tcp://gpu-box:5555 --role relay" in fake.calls
    fake.forget()
    assert there(AT, fake.target, SYSTEM)("h2"), "a3cd is a user's there"
    assert f"{keys} invite h2 --learner tcp://gpu-box:5555" in fake.calls
    assert all("gpu-box" not in call for call in fake.calls if call.startswith("ssh"))


@pytest.mark.parametrize(("program", "why"), [("exit 3", "exit code 3"), ("echo nonsense", "is no address")])
def test_no_invitation_from_there(fake: Fake, program: str, why: str) -> None:
    fake.put("ssh", f"#!/bin/sh\n{program}\n")
    with pytest.raises(UnavailableError, match=f"^no invitation from root@box: .*{why}"):
        there(AT, fake.target, SYSTEM)("h2")
