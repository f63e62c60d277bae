"""Payloads, and what the script does with them on a host."""

from __future__ import annotations

import fcntl
import io
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from common.errors import A3cdError, ConfigurationError, UnavailableError
from deploy.install import roles, software
from deploy.install.payload import SYSTEM, USER, Layout, Payload, shell_word
from deploy.install.roles import UNITS
from tests.deploy.install.conftest import FAR, MAKERS, Fake, Take

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("of", [SYSTEM, USER], ids=["system", "user"])
@pytest.mark.parametrize("role", MAKERS)
def test_the_second_time_nothing_is_due(fake: Fake, wheel: Path, take: Take, role: str, of: Layout) -> None:
    one = MAKERS[role](fake.layout(of), (wheel,))
    looked = list(fake.target.apply(one))
    assert looked
    assert list(fake.root.iterdir()) == [], "looking changes nothing"
    assert take(one) == looked
    units = fake.root / ("home/.config/systemd/user" if of.user else "etc/systemd/system")
    assert {path.name for path in units.iterdir() if path.is_file()} == set(UNITS)
    fake.forget()
    assert take(one) == []
    assert [call for call in fake.calls if "restart" in call or "reload" in call or "install" in call] == []


def test_an_edited_file_is_restored_and_what_runs_is_restarted(fake: Fake, take: Take, actors: Payload) -> None:
    take(actors)
    unit = fake.root / "etc/systemd/system/a3cd-actor@.service"
    unit.write_text("edited")
    fake.forget()
    assert take(actors) == [f"file {unit}", "units read again", "a3cd-actor@0.service a3cd-actor@1.service"]
    calls = [call for call in fake.calls if call.startswith("systemctl --system ") and " is-" not in call]
    assert [call for call in calls if " show " not in call and "list-units" not in call] == [
        "systemctl --system daemon-reload",
        "systemctl --system reset-failed a3cd-actor@0.service a3cd-actor@1.service",
        "systemctl --system restart --no-block a3cd-actor@0.service a3cd-actor@1.service",
    ]


def test_what_stopped_is_started_without_more(fake: Fake, take: Take, actors: Payload) -> None:
    take(actors)
    Path(f"{fake.environment['FAKE_LOG']}.up").unlink()
    assert take(actors) == ["a3cd-actor@0.service a3cd-actor@1.service", "a3cd.target"]


def test_a_deployment_that_failed_is_finished_the_next_time(fake: Fake, take: Take, actors: Payload) -> None:
    take(actors)
    (fake.root / "etc/systemd/system/a3cd-actor@.service").write_text("edited")
    working = (fake.programs / "systemctl").read_text()
    fake.put("systemctl", "#!/bin/sh\necho not now; exit 4\n")
    with pytest.raises(UnavailableError, match="root@box: systemctl --system daemon-reload: exit code 4: not now"):
        take(actors)
    fake.put("systemctl", working)
    assert take(actors) == ["units read again", "a3cd-actor@0.service a3cd-actor@1.service"]


def test_another_wheel_is_installed_and_what_runs_restarted(
    fake: Fake, take: Take, wheel: Path, tmp_path: Path
) -> None:
    take(MAKERS["actors"](fake.system, (wheel,)))
    other, needed = tmp_path / "other" / wheel.name, tmp_path / "other" / "torch-2-x.whl"
    other.parent.mkdir()
    other.write_bytes(b"another wheel of the same version")
    needed.write_bytes(b"torch")
    fake.forget()
    due = take(MAKERS["actors"](fake.system, (other, needed)))
    assert due[:3] == [f"wheel {wheel.name}", "wheel torch-2-x.whl", f"a3cd in {fake.system.venv}"]
    assert "a3cd-actor@0.service a3cd-actor@1.service" in due
    wheels = f"{fake.system.venv}-wheels"
    assert [call for call in fake.calls if call.startswith("pip")] == [
        f"pip -m pip install --quiet --no-index --find-links {wheels} {wheels}/{wheel.name}",
        f"pip -m pip install --quiet --no-deps --no-index --force-reinstall {wheels}/{wheel.name}",
    ]
    assert (fake.root / "opt/a3cd-wheels/torch-2-x.whl").read_bytes() == b"torch"


def test_a_credential_is_made_only_for_a_host_without_one(fake: Fake, take: Take, wheel: Path) -> None:
    made = []

    def make() -> bytes:
        made.append(1)
        return b"secret"

    one = roles.peers("actors", fake.system, (wheel,), FAR, 2, credential=make)
    list(fake.target.apply(one))
    assert made == []
    take(one)
    take(one)
    assert made == [1]


def listen_no_more(fake: Fake) -> None:
    """The host's script can print, as over a network, after the caller has gone: it does not fail at its first line."""
    fake.put("ssh", '#!/bin/sh\nfor line; do :; done\nexec sh -c "$line" >/dev/null\n')


def test_a_host_is_sent_nothing_if_its_credential_cannot_be_made(fake: Fake, wheel: Path) -> None:
    def make() -> bytes:
        raise UnavailableError("no invitation")

    one = roles.peers("actors", fake.system, (wheel,), FAR, 2, credential=make)
    due = list(fake.target.apply(one))
    sent = io.BytesIO()
    with pytest.raises(UnavailableError, match="no invitation"):
        one.write(sent, "python3", due)
    assert sent.getvalue() == b""
    listen_no_more(fake)
    with pytest.raises(UnavailableError, match="no invitation"):
        list(fake.target.apply(one, due))
    assert list(fake.root.iterdir()) == []


def test_an_archive_that_ends_early_runs_no_script(
    fake: Fake, wheel: Path, actors: Payload, monkeypatch: pytest.MonkeyPatch
) -> None:
    due = list(fake.target.apply(actors))
    digest = software.digest(wheel)
    monkeypatch.setattr("deploy.install.payload.digest", lambda _: digest)
    wheel.unlink()
    listen_no_more(fake)
    with pytest.raises(FileNotFoundError):
        list(fake.target.apply(actors, due))
    assert list(fake.root.iterdir()) == []


@pytest.mark.parametrize("of", [SYSTEM, USER], ids=["system", "user"])
def test_fewer_slots_end_the_actors_beyond(fake: Fake, wheel: Path, take: Take, of: Layout) -> None:
    one = MAKERS["actors"](fake.layout(of), (wheel,))
    take(one)
    units = fake.root / ("home/.config/systemd/user" if of.user else "etc/systemd/system")
    at_boot = units / "a3cd.target.wants"
    at_boot.mkdir()
    for slot in (0, 1, 2, 10):
        (at_boot / f"a3cd-actor@{slot}.service").symlink_to("../a3cd-actor@.service")
    fake.forget()
    assert take(one) == ["no actor beyond 2"]
    scope = "--user" if of.user else "--system"
    assert f"systemctl {scope} disable --now a3cd-actor@10.service a3cd-actor@2.service" in fake.calls


def test_removal_keeps_runs_settings_and_keys(fake: Fake, take: Take, actors: Payload) -> None:
    take(actors)
    run = fake.root / "var/lib/a3cd/mine/run.json"
    run.parent.mkdir(parents=True)
    run.touch()
    removal = Payload("remove", fake.system)
    due = take(removal)
    assert due[-1] == f"kept: {fake.root}/var/lib/a3cd (runs) and {fake.root}/etc/a3cd (settings, keys)"
    assert not (fake.root / "opt/a3cd").exists()
    elsewhere = [path for path in (fake.root / "etc").rglob("*") if path.is_file() and "etc/a3cd/" not in str(path)]
    assert elsewhere == []
    assert run.exists()
    assert (fake.root / "etc/a3cd/actor.env").exists()
    assert (fake.root / "etc/a3cd/keys/gpu-box_5555.credential").exists()
    assert take(removal) == []


def test_a_home_with_a_blank_in_its_name(fake: Fake, wheel: Path, take: Take, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(fake.root / "some one"))
    one = MAKERS["actors"](fake.layout(USER), (wheel,))
    assert take(one)
    assert (fake.root / "some one/.local/share/a3cd/bin/a3cd").exists()
    assert take(one) == []


FAILED = "ActiveState=failed\nSubState=failed\nResult=exit-code\nExecMainStatus={}\n"
WAITS = "ActiveState=activating\nSubState=start\nResult=success\nStatusText=waiting for the learner at tcp://x:1\n"


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        (FAILED.format(78), ConfigurationError),
        ("ActiveState=activating\nSubState=auto-restart\nResult=exit-code\nExecMainStatus=1\n", UnavailableError),
    ],
)
def test_a_unit_that_does_not_stay_up_fails_the_deployment(
    fake: Fake, take: Take, actors: Payload, state: str, kind: type[A3cdError]
) -> None:
    fake.say("a3cd-actor@1.service", state)
    fake.put("journalctl", "#!/bin/sh\necho 'error: the key is not allowed'\n")
    for _ in range(2):  # once more, and it is tried again
        with pytest.raises(kind, match=r"a3cd-actor@1.service does not run: .*; its last lines: .*the key is"):
            take(actors)
    fake.say("a3cd-actor@1.service", "ActiveState=active\nResult=success\n")
    assert "a3cd-actor@0.service a3cd-actor@1.service" in take(actors)
    assert take(actors) == []
    fake.say("a3cd-actor@1.service", state)
    with pytest.raises(kind):
        take(actors)


def test_a_unit_that_is_refused_is_told_and_goes_on_trying(fake: Fake, take: Take, actors: Payload) -> None:
    fake.say("a3cd-actor@1.service", WAITS.replace("waiting for the learner", "kept out: the key of box is not let in"))
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=r"a3cd-actor@1.service runs, but is kept out: the key of box"):
            take(actors)


def test_a_unit_that_waits_for_its_learner_is_told(fake: Fake, actors: Payload) -> None:
    fake.say("a3cd-actor@1.service", WAITS)
    told = list(fake.target.apply(actors, list(fake.target.apply(actors))))
    assert told[-1] == "note: a3cd-actor@1.service waits for its learner: waiting for the learner at tcp://x:1"
    assert list(fake.target.apply(actors)) == []


def test_an_upgrade_starts_what_runs_and_what_failed_and_says_when_it_does_not_stay(
    fake: Fake, take: Take, wheel: Path
) -> None:
    one = MAKERS["upgrade"](fake.system, (wheel,))
    (fake.root / "etc/a3cd/runs").mkdir(parents=True)
    (fake.root / "etc/a3cd/runs/x.toml").touch()
    states = {"a3cd-learner@x.service": "failed", "a3cd-actor@0.service": "active", "a3cd-actor@1.service": "inactive"}
    fake.say("listed", "".join(f"{unit} loaded {state} dead a unit\n" for unit, state in states.items()))
    fake.say("a3cd-learner@x.service", FAILED.format(78))
    fake.say("a3cd-actor@0.service", "ActiveState=active\n")
    with pytest.raises(ConfigurationError, match=r"a3cd-learner@x.service does not run: exit-code, exit code 78"):
        take(one)
    fake.say("a3cd-learner@x.service", "ActiveState=active\n")
    fake.forget()
    assert "restart of what runs" in take(one)
    both = "a3cd-learner@x.service a3cd-actor@0.service"
    for call in (f"reset-failed {both}", f"restart --no-block {both}"):
        assert f"systemctl --system {call}" in fake.calls
    checked = f"check-config - --run-dir {fake.system.data}/x"
    assert fake.calls.index(f"a3cd {checked}") < fake.calls.index(f"systemctl --system restart --no-block {both}")


def test_settings_that_are_refused_there_stop_no_learner(fake: Fake, wheel: Path, take: Take) -> None:
    take(MAKERS["learner"](fake.system, (wheel,)))
    fake.say("wrong", "standard input: no such environment")
    fake.forget()
    wrong = roles.learner(fake.system, (wheel,), "mine", b"seed = 2\n", FAR)
    with pytest.raises(ConfigurationError, match=r"run mine are refused, and nothing was stopped: .*no such env"):
        take(wrong)
    assert [call for call in fake.calls if "restart" in call] == []
    assert (fake.root / "etc/a3cd/runs/mine.toml").read_bytes() == b"seed = 1\n"


def test_extras_are_installed_as_pinned_and_stay(fake: Fake, wheel: Path, take: Take) -> None:
    one = replace(MAKERS["learner"](fake.system, (wheel,)), extras={"flappy"}, pip=("--proxy=a b",))
    assert f"a3cd in {fake.system.venv} with flappy" in take(one)
    (call,) = [call for call in fake.calls if call.startswith("pip") and "[flappy]" in call]
    assert "--quiet --proxy=a b --constraint /" in call and call.endswith(
        f"constraints.txt {fake.system.venv}-wheels/{wheel.name}[flappy]"
    )
    assert take(one) == []
    other = replace(MAKERS["actors"](fake.system, (wheel,)), extras={"atari"})
    assert f"a3cd in {fake.system.venv} with atari,flappy" in take(other)
    assert take(one) == []


def test_the_learner_is_asked_which_extra_its_run_needs(fake: Fake, take: Take, actors: Payload) -> None:
    fake.say("extra", "flappy\n")
    told = list(fake.target.apply(actors, list(fake.target.apply(actors))))
    assert f"a3cd in {fake.system.venv} with flappy" in told
    asked = (
        f"a3cd status tcp://gpu-box:5555 --credential {fake.system.keys}/gpu-box_5555.credential --extra --timeout 5"
    )
    assert asked in fake.calls
    assert take(actors) == []


def test_a_learner_that_refuses_the_key_fails_the_deployment(fake: Fake, take: Take, actors: Payload) -> None:
    refusal = (
        "12:00:00 a3cd     error: the learner at tcp://gpu-box:5555 does not let the key of box in: on its host, ..."
    )
    take(actors)
    (fake.root / "opt/a3cd/bin/a3cd").write_text(f"#!/bin/sh\necho '{refusal}' >&2\nexit 78\n")
    with pytest.raises(ConfigurationError, match=r"^root@box: the learner at .*does not let the key of box"):
        take(actors)


def test_a_python_below_a_home_is_refused_before_anything_is_installed(fake: Fake, take: Take, actors: Payload) -> None:
    fake.say("python", "/root/.pyenv/versions/3.12.1/bin/python3.12\n")
    with pytest.raises(ConfigurationError, match=r"is /root/.pyenv/.*below a home; name another Python with --python"):
        take(actors)
    assert list(fake.root.iterdir()) == []
    take(MAKERS["actors"](fake.layout(USER), actors.wheels))  # type: ignore[arg-type]


def test_another_python_than_that_of_the_environment_takes_its_place(
    fake: Fake, take: Take, actors: Payload, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(actors)
    fake.put(
        "python3.99",
        (fake.programs / "python3").read_text().replace("*realpath*)", "*base_prefix*) echo 3.99 ;;\n*realpath*)"),
    )
    monkeypatch.setattr(fake, "target", replace(fake.target, python="python3.99"))
    assert take(actors)[:2] == [f"virtual environment {fake.system.venv} of python3.99", f"a3cd in {fake.system.venv}"]
    assert take(actors) == []


@pytest.mark.parametrize(
    ("program", "text", "why"),
    [
        ("id", "#!/bin/sh\necho 1000\n", "only root may install system units"),
        ("python3", "#!/bin/sh\necho Python 3.9; exit 1\n", "python3 is Python 3.9; a3cd needs 3.11 or newer"),
        ("systemctl", "#!/bin/sh\necho 'systemd 249 (249.11-0ubuntu3)'\n", "systemd is 249 here; to pass keys"),
    ],
)
def test_what_a_host_may_lack(fake: Fake, take: Take, actors: Payload, program: str, text: str, why: str) -> None:
    fake.put(program, text)
    with pytest.raises(ConfigurationError, match=f"^root@box: {why}"):
        take(actors)
    assert list(fake.root.iterdir()) == []


def test_root_has_no_units_of_its_own(fake: Fake, take: Take, wheel: Path) -> None:
    one = MAKERS["actors"](fake.layout(USER), (wheel,))
    fake.say("uid", "0\n")
    with pytest.raises(ConfigurationError, match="root has system units: leave out --user"):
        take(one)


@pytest.mark.parametrize("name", [".git/HEAD", "runs/mine/run.json", "a-clone/README.md"])
def test_what_stands_where_a3cd_is_to_be_installed_is_not_removed(
    fake: Fake, take: Take, actors: Payload, name: str
) -> None:
    precious = fake.root / "opt/a3cd" / name
    precious.parent.mkdir(parents=True)
    precious.touch()
    said = rf"a3cd holds more than a virtual environment \({name.partition('/')[0]}\).*move it away"
    for payload in (actors, Payload("remove", fake.system)):
        with pytest.raises(ConfigurationError, match=said):
            take(payload)
    assert precious.exists()


def test_a_virtual_environment_that_was_not_finished_is_made_anew(fake: Fake, take: Take, actors: Payload) -> None:
    (fake.root / "opt/a3cd/bin").mkdir(parents=True)
    assert take(actors)[0] == f"virtual environment {fake.system.venv} of python3"


def test_two_deployments_at_once(fake: Fake, take: Take, actors: Payload) -> None:
    take(actors)
    (fake.root / "etc/systemd/system/a3cd-actor@.service").write_text("edited")
    with (fake.root / "opt/a3cd-wheels/lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(UnavailableError, match="another deployment is at work here"):
            take(actors)
    assert take(actors)


def test_a_key_folder_made_by_hand_lets_the_learner_reach_its_list(fake: Fake, take: Take, wheel: Path) -> None:
    keys = fake.root / "etc/a3cd/keys"
    keys.mkdir(parents=True, mode=0o700)
    take(MAKERS["learner"](fake.system, (wheel,)))
    assert keys.stat().st_mode & 0o777 == 0o711


def test_extras_are_remembered_although_a_new_environment_could_not_be_filled(
    fake: Fake, take: Take, wheel: Path
) -> None:
    take(replace(MAKERS["learner"](fake.system, (wheel,)), extras={"torch"}))
    (fake.root / "opt/a3cd/bin/python").unlink()
    working = (fake.programs / "python3").read_text()
    fake.put("python3", working.replace('"-m pip install "*)', '"-m pip install "*) exit 1 ;; never)'))
    actors = MAKERS["actors"](fake.system, (wheel,))
    with pytest.raises(UnavailableError, match="exit code 1"):
        take(actors)
    fake.put("python3", working)
    (fake.root / "opt/a3cd/bin/python").unlink()
    assert f"a3cd in {fake.system.venv} with torch" in take(actors)


def test_status_of_a_host_without_a3cd(fake: Fake) -> None:
    with pytest.raises(UnavailableError, match="root@box: a3cd is not installed"):
        list(fake.target.apply(Payload("status", fake.system)))


def test_a_shell_reads_a_path_as_one_word() -> None:
    words = f"{shell_word('~/a b')} {shell_word('/c $(d)')}"
    command = ["sh", "-c", f"printf '%s\\n' {words}"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, env={"HOME": "/some one"}).stdout
    assert said.splitlines() == ["/some one/a b", "/c $(d)"]
