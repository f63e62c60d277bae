"""What each role brings to a host."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from common.errors import ConfigurationError
from common.host.addresses import Address
from deploy.install import roles
from deploy.install.payload import SYSTEM, USER, Layout, Payload, read
from deploy.install.roles import UNITS
from tests.deploy.install.conftest import ANYWHERE, AT, FAR, MAKERS, Fake, Take

pytestmark = pytest.mark.slow


def test_files_of_an_actors_host(fake: Fake, take: Take, actors: Payload) -> None:
    take(actors)
    etc = fake.root / "etc"
    written = etc / "a3cd/keys/gpu-box_5555.credential"
    assert (written.read_bytes(), written.stat().st_mode & 0o777) == (b"secret", 0o600)
    settings = (etc / "a3cd/actor.env").read_text().splitlines()
    assert [line for line in settings if line and not line.startswith("#")] == [
        "A3CD_LEARNER=tcp://gpu-box:5555",
        "A3CD_ACTOR_OPTIONS=--allow-module my_games",
    ]
    drop_in = (etc / "systemd/system/a3cd-actor@.service.d/keys.conf").read_text()
    assert f"LoadCredential=learner.credential:{written}\n" in drop_in
    written.write_bytes(b"another, made by hand")
    assert take(actors) == []


def test_a_launcher_keeps_its_learner_where_actors_are_sent_to_a_relay() -> None:
    """Its unit reads launcher.env after actor.env."""
    names = re.findall("^EnvironmentFile=.*/(.*)$", SYSTEM.unit("a3cd-launcher.service").decode(), re.MULTILINE)
    files = MAKERS["launcher"](SYSTEM, ()).files
    assert [f"A3CD_LEARNER={AT}\n".encode() in files[f"config/{name}"] for name in names] == [True, True]
    assert names[-1] == "launcher.env"


def test_without_keys_the_unit_loads_none(fake: Fake, wheel: Path, take: Take, actors: Payload) -> None:
    take(actors)
    take(roles.peers("actors", fake.system, (wheel,), FAR, 2, insecure=True))
    assert "LoadCredential" not in (fake.root / "etc/systemd/system/a3cd-actor@.service.d/keys.conf").read_text()
    assert "A3CD_ACTOR_OPTIONS=--insecure" in (fake.root / "etc/a3cd/actor.env").read_text()


def test_a_learner_beyond_this_machine_makes_its_keys(fake: Fake, wheel: Path, take: Take) -> None:
    pair = f"key pair {fake.system.keys}/learner.key"
    assert pair in take(MAKERS["learner"](fake.system, (wheel,)))
    assert f"a3cd keys --keys {fake.system.keys} new learner" in fake.calls
    near = roles.learner(fake.system, (wheel,), "mine", b"", AT)
    assert pair not in list(fake.target.apply(near))


def test_a_relay_has_keys_of_its_own_and_a_credential_that_no_other_peer_uses(
    fake: Fake, wheel: Path, take: Take
) -> None:
    done = take(MAKERS["relay"](fake.system, (wheel,)))
    assert {f"key pair {fake.system.keys}/learner.key", "credential relay-gpu-box_5555.credential"} <= set(done)
    etc = fake.root / "etc"
    settings = (etc / "a3cd/relay.env").read_text().splitlines()
    assert [line for line in settings if line and not line.startswith("#")] == [
        "A3CD_LEARNER=tcp://gpu-box:5555",
        "A3CD_BIND=tcp://0.0.0.0:5565",
        "A3CD_RELAY_OPTIONS=--mbit 800",
    ]
    drop_in = (etc / "systemd/system/a3cd-relay.service.d/keys.conf").read_text()
    assert f"LoadCredential=learner.credential:{fake.system.keys}/relay-gpu-box_5555.credential\n" in drop_in
    assert "--keys %d --allowed" in drop_in


@pytest.mark.parametrize("of", [SYSTEM, USER], ids=["system", "user"])
@pytest.mark.parametrize("learner", [AT, FAR], ids=["near", "far"])
@pytest.mark.parametrize("bind", [AT, ANYWHERE], ids=["this host", "the network"])
def test_a_relay_has_keys_on_the_sides_that_need_them(of: Layout, learner: Address, bind: Address) -> None:
    credential = None if learner.loopback else lambda: b"secret"
    one = roles.relay(of, (), learner, bind, credential=credential)
    drop_in = one.files["units/a3cd-relay.service.d/keys.conf"].decode()
    assert ("A3CD_CREDENTIAL=" in drop_in) == bool(one.settings["credential"]) == (credential is not None)
    assert (one.settings["key_pair"] == "yes") == (not bind.loopback)
    if not of.user:
        assert ("A3CD_KEYS=" in drop_in) == ("learner.key" in drop_in) == (not bind.loopback)
        assert ("=learner.credential:" in drop_in) == (credential is not None)


def test_a_relay_without_keys_says_so_to_both_sides() -> None:
    one = roles.relay(SYSTEM, (), FAR, ANYWHERE, insecure=True)
    assert b"A3CD_RELAY_OPTIONS=--insecure\n" in one.files["config/relay.env"]
    assert b"Environment" not in one.files["units/a3cd-relay.service.d/keys.conf"]


@pytest.mark.parametrize("layout", [SYSTEM, USER], ids=["system", "user"])
def test_a_learner_without_keys_keeps_the_operators_options(layout: Layout) -> None:
    """A unit reads runs/NAME.env, which is deploy's, after learner.env, which is the operator's."""
    one = roles.learner(layout, (), "mine", b"", ANYWHERE, insecure=True)
    lines = one.files["config/runs/mine.env"].decode().splitlines()
    written = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    assert written == {"A3CD_BIND": str(ANYWHERE), "A3CD_INSECURE": "--insecure"}
    assert "$A3CD_INSECURE $A3CD_LEARNER_OPTIONS" in layout.unit("a3cd-learner@.service").decode()


@pytest.mark.parametrize("name", ["", "a b", "../x", "x;y", "-x", "x" * 65])
def test_a_runs_name_is_one_that_a_unit_can_have(name: str) -> None:
    with pytest.raises(ConfigurationError, match="is no name for a run"):
        roles.learner(SYSTEM, (), name, b"", AT)


def test_a_modules_name_is_one_word() -> None:
    with pytest.raises(ConfigurationError, match="'a b' is no name of a module"):
        roles.peers("actors", SYSTEM, (), AT, 1, modules=("a b",))


@pytest.mark.parametrize("layout", [SYSTEM, USER], ids=["system", "user"])
@pytest.mark.parametrize("name", UNITS)
def test_units_name_the_paths_of_their_layout(layout: Layout, name: str) -> None:
    text, other = layout.unit(name).decode(), SYSTEM if layout.user else USER
    assert text.startswith("# ")
    if name.endswith(".service"):
        assert layout.a3cd.replace("~", "%h") in text
        assert f"{layout.data.replace('~', '%h')}/%i" in text or "learner" not in name
    assert other.venv.replace("~", "%h") not in text
    assert other.config.replace("~", "%h") + "/" not in text


def test_what_goes_beside_them() -> None:
    for path in (("sysusers.conf",), ("tmpfiles.conf",), ("polkit.rules",), ("drop-ins", "learner-gpu.conf")):
        assert read(*path)


@pytest.mark.parametrize("there", [True, False])
def test_a_learner_on_a_host_with_an_nvidia_gpu_may_use_it(
    fake: Fake, take: Take, wheel: Path, tmp_path: Path, there: bool
) -> None:
    one = MAKERS["learner"](fake.system, (wheel,))
    driver = tmp_path / "nvidia"
    if there:
        driver.mkdir()
    one = replace(one, settings={**one.settings, "nvidia": str(driver)})
    drop_in = f"{fake.system.units}/a3cd-learner@.service.d/gpu.conf"
    assert (f"file {drop_in}" in take(one)) == Path(drop_in).exists() == there
    assert take(one) == []
    take(Payload("remove", fake.system))
    assert not Path(drop_in).exists()


def test_fixed_actors_take_the_launcher_s_place_and_it_takes_theirs(fake: Fake, take: Take, actors: Payload) -> None:
    boot = Path(fake.system.units) / "a3cd.target.wants"
    boot.mkdir(parents=True)
    (boot / "a3cd-launcher.service").symlink_to("../a3cd-launcher.service")
    assert "no launcher besides these actors" in take(actors)
    assert "systemctl --system disable --now a3cd-launcher.service" in fake.calls
    (boot / "a3cd-launcher.service").unlink()
    (boot / "a3cd-actor@0.service").symlink_to("../a3cd-actor@.service")
    assert take(MAKERS["launcher"](fake.system, actors.wheels))[-1] == "no actors at boot besides the launcher's"  # type: ignore[arg-type]
    assert "systemctl --system disable a3cd-actor@0.service" in fake.calls


RUNNING = {"a3cd-evaluator": "active", "a3cd-learner@x": "active", "a3cd-relay": "inactive", "a3cd-launcher": "failed"}


def others(fake: Fake) -> list[str]:
    """Units that are restarted besides the actors that are deployed."""
    restarts = [call.split(" --no-block ")[1] for call in fake.calls if " restart --no-block " in call]
    return [units for units in restarts if "a3cd-actor@0" not in units]


def test_other_units_that_run_get_new_software_and_an_evaluator_new_settings(
    fake: Fake, take: Take, wheel: Path, actors: Payload
) -> None:
    fake.say("listed", "".join(f"{unit}.service loaded {state} x a unit\n" for unit, state in RUNNING.items()))
    take(actors)
    fake.forget()
    assert "restart of the others that run" in take(replace(actors, files={**actors.files, "config/actor.env": b"A=1"}))
    assert others(fake) == ["a3cd-evaluator.service"]
    (fake.root / "etc/a3cd/runs").mkdir(parents=True, exist_ok=True)
    (fake.root / "etc/a3cd/runs/x.toml").touch()
    newer = wheel.with_name("a3cd-2-py3-none-any.whl")
    newer.write_bytes(b"a newer wheel")
    actors = replace(actors, wheels=(newer,))
    fake.say("wrong", "standard input: no such environment")
    with pytest.raises(ConfigurationError, match="run x are refused, and nothing was stopped"):
        take(actors)
    Path(f"{fake.environment['FAKE_LOG']}.wrong").unlink()
    fake.forget()
    assert "restart of the others that run" in take(actors)
    assert others(fake) == ["a3cd-evaluator.service a3cd-learner@x.service"]
    assert take(actors) == []


def test_a_learner_s_settings_are_no_reason_to_restart_others(fake: Fake, take: Take, wheel: Path) -> None:
    take(MAKERS["learner"](fake.system, (wheel,)))
    fake.say("listed", "".join(f"{unit}.service loaded active x a unit\n" for unit in RUNNING))
    fake.forget()
    assert "restart of the others that run" not in take(
        roles.learner(fake.system, (wheel,), "mine", b"seed = 2\n", FAR)
    )
    assert others(fake) == ["a3cd-learner@mine.service"]
