from __future__ import annotations

from pathlib import Path

import pytest

from common.errors import ConfigurationError, UnavailableError
from deploy.backends.hosts import parse
from deploy.install.payload import Payload
from deploy.install.target import SshTarget
from deploy.ssh import ssh_command
from tests.deploy.install.conftest import Fake


def test_only_user_and_host_are_taken() -> None:
    target = SshTarget.parse("root@box", Path("some config"), "python3", sudo=False)
    assert target.words == tuple(ssh_command("root@box", config="some config"))
    for text in ("", "-oProxyCommand=x", "a b", "$(x)", "root@box:22"):
        with pytest.raises(ConfigurationError, match="write USER@HOST"):
            SshTarget.parse(text, None, "python3", sudo=False)


def test_nothing_of_a_payload_is_on_a_command_line(fake: Fake, wheel: Path) -> None:
    nasty = Payload("upgrade", fake.system, (wheel,), {"config/$(touch owned); 'x'": b"`touch owned`"})
    due = list(fake.target.apply(nasty))
    list(fake.target.apply(nasty, due))
    assert (fake.root / "etc/a3cd/$(touch owned); 'x'").read_bytes() == b"`touch owned`"
    assert [call for call in fake.calls if "owned" in call] == []


def test_what_was_sent_does_not_stay_there(fake: Fake, wheel: Path) -> None:
    fake.put(
        "mktemp", '#!/bin/sh\nhere=$(PATH=/usr/bin:/bin mktemp "$@")\necho "made $here" >> "$FAKE_LOG"\necho "$here"\n'
    )
    list(fake.target.apply(Payload("upgrade", fake.system, (wheel,))))
    (made,) = (Path(call.removeprefix("made ")) for call in fake.calls if call.startswith("made "))
    assert made.name.startswith("a3cd.") and not made.exists()


def test_sudo_asks_no_question(fake: Fake) -> None:
    fake.put("sudo", '#!/bin/sh\necho "sudo $1" >> "$FAKE_LOG"\nshift\nexec "$@"\n')
    target = SshTarget(parse("ann@box"), ("ssh", "ann@box"), sudo=True)
    assert list(target.run("sh -s", lambda file: file.write(b"echo one\necho two\n"))) == ["one", "two"]
    assert "sudo -n" in fake.calls


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("echo 'Permission denied (publickey).' >&2; exit 255", "Permission denied (publickey). (`ssh root@box true`"),
        ("exit 3", "exit code 3 without a word"),
    ],
)
def test_a_host_that_cannot_be_reached(fake: Fake, wheel: Path, program: str, said: str) -> None:
    fake.put("ssh", f"#!/bin/sh\n{program}\n")
    big = Payload("upgrade", fake.system, (wheel,), {"config/x": b"x" * 2**20})  # more than a pipe holds
    with pytest.raises(UnavailableError) as raised:
        list(fake.target.apply(big))
    assert str(raised.value).startswith(f"root@box: {said}")


def test_no_ssh_here(fake: Fake) -> None:
    with pytest.raises(UnavailableError, match="no-such-ssh is not installed here"):
        list(SshTarget(parse("box"), ("no-such-ssh",)).run("true", lambda _: None))


def test_a_host_that_never_ends_is_given_up(fake: Fake, wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deploy.install.target.MOST_SECONDS", 0.3)
    fake.put("ssh", "#!/bin/sh\nexec tail -f /dev/null\n")
    with pytest.raises(UnavailableError, match="root@box: not done after 0 minutes"):
        list(fake.target.apply(Payload("upgrade", fake.system, (wheel,))))
