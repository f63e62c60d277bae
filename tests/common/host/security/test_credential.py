from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import ConfigurationError
from common.host.addresses import Address
from common.host.security.credential import Credential, file_name
from common.host.security.keys import KeyPair

LEARNER = Address("gpu-box", 5555)


@pytest.fixture
def credential() -> Credential:
    return Credential(LEARNER, KeyPair.generate("learner").public, KeyPair.generate("lab7"))


def test_it_is_read_as_it_was_written(tmp_path: Path, credential: Credential) -> None:
    path = tmp_path / file_name(credential.learner)
    credential.write(path)
    credential.write(path)
    assert Credential.read(path) == credential
    assert path.name == "gpu-box_5555.credential"


def test_it_goes_over_as_one_line(credential: Credential) -> None:
    line = credential.invitation()
    assert line.startswith("tcp://gpu-box:5555#")
    assert not set(line) & set(" '\"$`\\\n!&;|<>()")  # a shell takes it as it stands, in quotes or not
    assert Credential.from_invitation(f" {line}\n") == credential


@given(st.data())
def test_a_line_that_was_cut_or_changed_is_refused_or_another(data: st.DataObject) -> None:
    whole = Credential(LEARNER, KeyPair.generate("learner").public, KeyPair.generate("lab7"))
    where, _, token = whole.invitation().partition("#")
    kept = data.draw(st.integers(0, 86))  # the two keys, and no name
    with pytest.raises(ConfigurationError) as raised:
        Credential.from_invitation(f"{where}#{token[:kept]}")
    assert kept < 8 or token[:kept] not in str(raised.value)


@given(st.text())
def test_any_text_is_an_invitation_or_an_error(text: str) -> None:
    with contextlib.suppress(ConfigurationError):
        assert Credential.from_invitation(f"tcp://a:1#{text}").pair.name


@pytest.mark.parametrize("missing", ["learner", "learner_key", "name", "secret"])
def test_a_file_that_lacks_something(tmp_path: Path, credential: Credential, missing: str) -> None:
    path = tmp_path / "x.credential"
    path.write_text("\n".join(line for line in credential.text().splitlines() if not line.startswith(f"{missing} =")))
    path.chmod(0o600)
    with pytest.raises(ConfigurationError, match=f"has no {missing}: `a3cd keys invite`"):
        Credential.read(path)


def test_files_are_named_by_the_address() -> None:
    assert file_name(Address("[fe80::1%eth0]", 1)) == "fe80--1-eth0_1.credential"
