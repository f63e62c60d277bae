from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from common.errors import ConfigurationError
from common.host.addresses import Address
from common.host.security.access import LEARNER_PAIR, SYSTEM_FOLDER, LearnerEndpoint, accept, default_folder, find
from common.host.security.credential import Credential
from common.host.security.keys import KeyPair

HERE, FAR = Address("127.0.0.1", 5555), Address("gpu-box", 5555)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An ordinary user's."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "a3cd" / "keys"


def credential(address: Address = FAR) -> Credential:
    return Credential(address, KeyPair.generate("learner").public, KeyPair.generate("lab7"))


def test_without_keys_on_this_machine() -> None:
    access = find(HERE)
    assert access == LearnerEndpoint(HERE)
    assert access.arguments() == ["tcp://127.0.0.1:5555"]
    assert access.name("any-1") == "any-1"


def test_beyond_this_machine_only_with_keys_or_on_purpose(home: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no credential for the learner at tcp://gpu-box:5555 .*--insecure"):
        find(FAR)
    assert find(FAR, insecure=True).arguments() == ["tcp://gpu-box:5555", "--insecure"]


def test_a_credential_is_found_by_the_address(home: Path) -> None:
    kept = credential()
    kept.write(home / "gpu-box_5555.credential")
    access = find(FAR)
    assert access.credential == kept
    assert access.arguments() == ["tcp://gpu-box:5555", "--credential", str(home / "gpu-box_5555.credential")]
    assert find(FAR, insecure=True).credential is None


def test_a_credential_named(tmp_path: Path) -> None:
    kept = credential(Address("elsewhere", 1))
    kept.write(tmp_path / "mine")
    access = find(FAR, credential=tmp_path / "mine")
    assert (access.address, access.credential) == (FAR, kept)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        find(HERE, credential=tmp_path / "none")


def test_the_learners_own_pair_is_a_way_in_where_it_is_named(tmp_path: Path, home: Path) -> None:
    pair = KeyPair.generate("learner")
    for folder in (tmp_path / "own", home):
        pair.write(folder / LEARNER_PAIR)
    own = find(HERE, folder=tmp_path / "own").credential
    assert own == Credential(HERE, pair.public, pair)
    assert find(HERE).credential is None  # a learner of `a3cd train`, perhaps, which has no keys


def test_a_child_looks_in_the_folder_that_was_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    KeyPair.generate("learner").write(tmp_path / "own" / LEARNER_PAIR)
    for folder in (Path("own"), Path("empty")):
        access = find(HERE, folder=folder)
        assert access.arguments() == ["tcp://127.0.0.1:5555", "--keys", str(tmp_path / folder)]
        assert find(HERE, folder=tmp_path / folder) == access
    kept = tmp_path / "own" / "gpu-box_5555.credential"
    invited = accept(credential().invitation(), Path("own"))
    assert find(FAR, folder=Path("own")) == invited
    assert invited.arguments() == ["tcp://gpu-box:5555", "--credential", str(kept)]
    assert find(FAR, folder=Path("own"), credential=kept).folder == tmp_path / "own"


def test_an_invitation_is_kept(home: Path) -> None:
    invited = credential()
    access = accept(invited.invitation())
    assert find(FAR) == access
    assert access.credential == invited
    again = credential()
    assert accept(again.invitation()).credential == again == find(FAR).credential


def test_several_actors_may_be_given_one_invitation_at_the_same_moment(home: Path) -> None:
    invited = credential()
    for _ in range(20):
        with ThreadPoolExecutor(4) as actors:
            found = list(actors.map(accept, [invited.invitation()] * 4))
        assert all(access.credential == invited for access in found)
        assert [entry.name for entry in home.iterdir()] == ["gpu-box_5555.credential"]
        (home / "gpu-box_5555.credential").unlink()


def test_names_stand_under_the_keys_name() -> None:
    access = LearnerEndpoint(FAR, credential())
    assert access.name("vm-4711") == "lab7/vm-4711"
    assert access.name("lab7") == "lab7"
    assert access.name("lab7/vm-4711") == "lab7/vm-4711"
    assert access.name("lab77") == "lab7/lab77"


def test_where_keys_are(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_folder() == home
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", "/home/ada")
    if os.name == "posix":
        assert default_folder() == Path("/home/ada/.config/a3cd/keys")
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        assert default_folder() == SYSTEM_FOLDER


@pytest.mark.skipif(os.name != "posix", reason="users of POSIX")
def test_a_user_without_a_home_folder_has_the_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that is started as a user whom no list names."""
    import pwd

    def nobody(_: int) -> None:
        raise KeyError

    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    assert default_folder() == SYSTEM_FOLDER
    assert find(HERE).credential is None


@pytest.mark.skipif(os.name != "posix", reason="users of POSIX")
def test_a_home_folder_that_this_user_may_not_enter_holds_no_keys(home: Path) -> None:
    home.mkdir(parents=True)
    home.parent.chmod(0)
    if os.getuid() == 0:
        os.seteuid(12)
    try:
        assert find(HERE).credential is None
        with pytest.raises(ConfigurationError, match="no credential for the learner at tcp://gpu-box:5555"):
            find(FAR)
    finally:
        if os.getuid() == 0:
            os.seteuid(0)
        home.parent.chmod(0o700)


def test_keys_and_none_at_once_are_refused(tmp_path: Path) -> None:
    for given in ({"folder": tmp_path}, {"credential": tmp_path / "x"}):
        with pytest.raises(ConfigurationError, match="--insecure is without keys"):
            find(FAR, insecure=True, **given)
