from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from common.errors import ConfigurationError
from common.host.addresses import Address
from deploy.install import plan, ssh
from deploy.install.layout import SYSTEM, UNITS, USER, Layout
from deploy.install.software import Software
from deploy.install.step import Command, File, Plan, Step
from tests.deploy.install.conftest import Fake

AT, FAR = Address("127.0.0.1", 5555), Address("gpu-box", 5555)


@pytest.fixture
def software(tmp_path: Path) -> Software:
    wheel = tmp_path / "a3cd-1-py3-none-any.whl"
    wheel.write_bytes(b"a wheel")
    return Software(wheel)


def credential() -> File:
    return File("/etc/a3cd/keys/gpu-box_5555.credential", lambda: b"secret", mode=0o600, keep=True)


def take(fake: Fake, one: Plan) -> list[str]:
    """What was due, and is done."""
    due = [taken.step for taken in ssh.look(fake.way, one) if taken.state == "due"]
    if due:
        ssh.act(fake.way, one, due, lambda _: None)
    return [step.what for step in due]


MAKERS: dict[str, Callable[[Layout, Software], Plan]] = {
    "learner": lambda layout, software: plan.learner(
        layout, "python3", software, plan.Learner("mine", b"seed = 1\n", Address("0.0.0.0", 5555), insecure=True)
    ),
    "actors": lambda layout, software: plan.actors(
        layout, "python3", software, plan.Peers(FAR, 2, None if layout.user else credential(), ("my_games",))
    ),
    "launcher": lambda layout, software: plan.launcher(layout, "python3", software, plan.Peers(AT, 4)),
    "upgrade": lambda layout, software: plan.upgrade(layout, "python3", software),
}


@pytest.mark.parametrize("layout", [SYSTEM, USER], ids=["system", "user"])
@pytest.mark.parametrize("role", MAKERS)
def test_the_second_time_there_is_nothing_to_do(
    fake: Fake, software: Software, role: str, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    one = MAKERS[role](layout, software)
    assert take(fake, one)
    if not layout.user:
        units = fake.root / "etc/systemd/system"
        assert {path.name for path in units.iterdir() if path.is_file()} == set(UNITS)
    fake.forget()
    assert take(fake, one) == []
    assert [call for call in fake.calls if "restart" in call or "reload" in call or "install" in call] == []


def test_what_changed_is_seen_to_and_restarts_what_runs(fake: Fake, software: Software) -> None:
    take(fake, MAKERS["actors"](SYSTEM, software))
    (fake.root / "etc/systemd/system/a3cd-actor@.service").write_text("edited")
    fake.forget()
    due = take(fake, MAKERS["actors"](SYSTEM, software))
    assert due == [
        *("file /etc/systemd/system/a3cd-actor@.service", "units read again"),
        "a3cd-actor@0.service a3cd-actor@1.service",
    ]
    calls = [call for call in fake.calls if call.startswith("systemctl") and " is-" not in call]
    assert calls == [
        "systemctl daemon-reload",
        "systemctl restart --no-block a3cd-actor@0.service a3cd-actor@1.service",
    ]


def test_a_deployment_that_broke_off_is_finished_the_next_time(fake: Fake, software: Software) -> None:
    fake.put("systemctl", "#!/bin/sh\nexit 1\n")
    with pytest.raises(ssh.UnavailableError, match=r"root@box: units read again: systemctl daemon-reload: exit code 1"):
        take(fake, MAKERS["actors"](SYSTEM, software))
    fake.put("systemctl", '#!/bin/sh\necho "systemctl $*" >> "$FAKE_LOG"\necho active\n')
    assert take(fake, MAKERS["actors"](SYSTEM, software))[0] == "units read again"
    assert "systemctl daemon-reload" in fake.calls


def test_files_of_an_actors_host(fake: Fake, software: Software) -> None:
    take(fake, MAKERS["actors"](SYSTEM, software))
    etc = fake.root / "etc"
    written = etc / "a3cd/keys/gpu-box_5555.credential"
    assert (written.read_bytes(), written.stat().st_mode & 0o777) == (b"secret", 0o600)
    settings = (etc / "a3cd/actor.env").read_text().splitlines()
    assert [line for line in settings if line and not line.startswith("#")] == [
        "A3CD_LEARNER=tcp://gpu-box:5555",
        "A3CD_ACTOR_OPTIONS=--allow-module my_games",
    ]
    drop_in = (etc / "systemd/system/a3cd-actor@.service.d/keys.conf").read_text()
    assert "LoadCredential=learner.credential:/etc/a3cd/keys/gpu-box_5555.credential\n" in drop_in
    written.write_bytes(b"another, made by hand")
    assert take(fake, MAKERS["actors"](SYSTEM, software)) == []


@pytest.mark.parametrize("layout", [SYSTEM, USER], ids=["system", "user"])
def test_fewer_slots_end_the_actors_beyond(
    fake: Fake, software: Software, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    take(fake, MAKERS["actors"](layout, software))
    at_boot = fake.root / layout.units.replace("~", "home/someone").lstrip("/") / "a3cd.target.wants"
    at_boot.mkdir()
    for slot in (0, 1, 2, 10):
        (at_boot / f"a3cd-actor@{slot}.service").symlink_to("../a3cd-actor@.service")
    fake.forget()
    assert take(fake, MAKERS["actors"](layout, software)) == ["no actor beyond 2"]
    user = " --user" if layout.user else ""
    assert f"systemctl{user} disable --now a3cd-actor@10.service a3cd-actor@2.service" in fake.calls


def test_without_keys_the_drop_in_goes(fake: Fake, software: Software) -> None:
    take(fake, MAKERS["actors"](SYSTEM, software))
    take(fake, plan.actors(SYSTEM, "python3", software, plan.Peers(FAR, 2, insecure=True)))
    assert not (fake.root / "etc/systemd/system/a3cd-actor@.service.d/keys.conf").exists()
    assert "A3CD_ACTOR_OPTIONS=--insecure" in (fake.root / "etc/a3cd/actor.env").read_text()


def test_a_learner_beyond_this_machine_makes_its_keys(software: Software) -> None:
    role = plan.Learner("mine", b"", Address("0.0.0.0", 5555))
    names = [step.what for step in plan.learner(SYSTEM, "python3", software, role).steps]
    assert "key pair of the learner" in names
    near = plan.learner(SYSTEM, "python3", software, plan.Learner("mine", b"", AT))
    assert "key pair of the learner" not in [step.what for step in near.steps]


def test_removal_keeps_runs_settings_and_keys(fake: Fake, software: Software) -> None:
    take(fake, MAKERS["actors"](SYSTEM, software))
    run = fake.root / "var/lib/a3cd/mine/run.json"
    run.parent.mkdir(parents=True)
    run.touch()
    assert "no /opt/a3cd" in take(fake, plan.remove(SYSTEM))
    assert not (fake.root / "opt/a3cd").exists()
    assert list((fake.root / "etc/systemd/system").rglob("a3cd*.*")) == [
        fake.root / "etc/systemd/system/a3cd-actor@.service.d"
    ]
    assert run.exists()
    assert (fake.root / "etc/a3cd/actor.env").exists()
    assert (fake.root / "etc/a3cd/keys/gpu-box_5555.credential").exists()
    assert take(fake, plan.remove(SYSTEM)) == []


def test_status_changes_nothing() -> None:
    assert all(isinstance(step, Command) and step.tell for step in plan.status(SYSTEM).steps)


def steps_of(software: Software) -> list[Step]:
    return [step for make in MAKERS.values() for step in make(SYSTEM, software).steps]


def test_every_command_knows_when_it_is_not_needed(software: Software) -> None:
    assert [step.what for step in steps_of(software) if isinstance(step, Command) and not step.unless] == []


@pytest.mark.parametrize("name", ["", "a b", "../x", "x;y", "-x", "x" * 65])
def test_a_runs_name_is_one_that_a_unit_can_have(name: str) -> None:
    with pytest.raises(ConfigurationError, match="is no name for a run"):
        plan.Learner(name, b"", AT)


def test_a_modules_name_is_one_word() -> None:
    with pytest.raises(ConfigurationError, match="'a b' is no name of a module"):
        plan.Peers(AT, 1, modules=("a b",))
