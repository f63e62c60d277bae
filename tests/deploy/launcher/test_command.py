from __future__ import annotations

import os
import shlex
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import click
import pytest

import deploy
from common.host.addresses import Address
from common.host.security.access import LEARNER_PAIR, LearnerEndpoint
from common.host.security.keys import KeyPair
from deploy import children
from deploy.backends.base import Backend, Place, group_name
from deploy.backends.command import CommandBackend
from deploy.backends.hosts import Host
from deploy.backends.kubernetes import KubernetesBackend
from deploy.backends.process import ProcessBackend
from deploy.backends.ray import RayBackend
from deploy.backends.ray_driver import Plan
from deploy.backends.slurm import SlurmBackend
from deploy.backends.ssh import SshBackend
from deploy.backends.systemd import SystemdBackend
from deploy.launcher.command import default_name, places
from deploy.launcher.options import EXTRAS
from tests.helpers.command_line import AT, Stand, a3cd

GPU_BOX = LearnerEndpoint(Address("gpu-box", 5555), source=Path("/keys/c"), insecure=True)
LEARNER = "tcp://localhost:5555"
NOTHING: dict[str, Any] = {
    **dict.fromkeys(("hosts", "ssh_config", "remote", "command")),
    "ray": "auto",
    **dict.fromkeys(("runtime_env", "image", "secret", "namespace", "service_account", "context", "actor_learner")),
    **{key: {} for key in ("request", "limit", "node_selector")},
    **dict.fromkeys(("host", "ssh_option", "sbatch_option", "allow_module"), ()),
    "user": False,
    "unit": "a3cd-actor@",
}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Stand:
    """In the place of the daemon."""
    one = Stand(75)
    monkeypatch.setattr("deploy.launcher.shell.run", one)
    return one


def test_where_actors_may_run(run: Stand) -> None:
    result = a3cd("launcher", "localhost", "--start-with", "ssh", "--host", "ann@h2:4", "--host", "h3:2", "--name", "x")
    assert result.exit_code == 75
    access, places = run.arguments
    assert access == AT
    assert [(type(place.backend), place.slots, place.name) for place in places] == [
        (SshBackend, 4, "h2"),
        (SshBackend, 2, "h3"),
    ]
    assert run.options == {"name": "x", "prestart": 0, "wait": 0.0}
    a3cd("launcher", "localhost", "--start-with", "systemd", "--slots", 2, "--user")
    _, (place,) = run.arguments
    assert (type(place.backend), place.slots) == (SystemdBackend, 2)
    a3cd("launcher", "localhost", "--slots", 3, "--prestart", 2)
    _, (place,) = run.arguments
    assert isinstance(place.backend, ProcessBackend)
    assert run.options["prestart"] == 2


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--host", "h2"], "--host belongs to --start-with ssh, not to process"),
        (["--start-with", "command", "--slots", "2"], "needs --command"),
        (["--start-with", "ssh"], "needs --host"),
        (["--start-with", "systemd"], "--slots N says how many actors may run"),
    ],
)
def test_misused(run: Stand, arguments: list[str], text: str) -> None:
    result = a3cd("launcher", "localhost", *arguments)
    assert result.exit_code == 2
    assert text in " ".join(result.output.split())
    assert run.arguments == ()


def made(way: str, slots: int | None = 3, name: str = "lab", **options: Any) -> list[Place]:
    return places(way, GPU_BOX, name, slots, NOTHING | options)


def test_actors_as_processes() -> None:
    (place,) = made("process", name="here", allow_module=["games"])
    assert isinstance(place.backend, ProcessBackend)
    assert place.backend._name(3) == "here-3"
    assert place.backend._command(3) == children.a3cd(
        *("actor", "tcp://gpu-box:5555", "--credential", "/keys/c", "--insecure", "--nice", "10"),
        *("--allow-module", "games", "--name", "here-3", "--launcher", "here", "--lifeline"),
    )
    place.backend.close()


def test_actors_of_a_relay_find_their_credential_by_its_address() -> None:
    (place,) = made("process", actor_learner=Address("hub", 7))
    assert isinstance(place.backend, ProcessBackend)
    assert place.backend._command(3) == children.a3cd(
        *("actor", "tcp://hub:7", "--insecure", "--nice", "10", "--name", "lab-3", "--launcher", "lab", "--lifeline")
    )
    place.backend.close()
    (place,) = made("ssh", host=[Host("h2")], actor_learner=Address("hub", 7))
    assert isinstance(place.backend, SshBackend)
    assert " actor tcp://hub:7 --insecure " in place.backend._child("", 0)[-1]
    (place,) = made("slurm", actor_learner=Address("hub", 7))
    assert isinstance(place.backend, SlurmBackend)
    assert " actor tcp://hub:7 --insecure " in place.backend._script


def test_a_relay_changes_no_name_by_which_actors_are_found_again() -> None:
    relay = Address("hub", 7)
    for way, options in (("ssh", {"host": [Host("h2")]}), ("slurm", {})):
        names = []
        for elsewhere in (None, relay):
            (place,) = made(way, actor_learner=elsewhere, **options)
            backend = place.backend
            assert isinstance(backend, SshBackend | SlurmBackend)
            names.append(backend._unit if isinstance(backend, SshBackend) else backend._name)
        assert names[0] == names[1] and names[0].startswith(group_name("lab", str(GPU_BOX.address)))


@pytest.mark.parametrize("elsewhere", [None, Address("hub", 7)], ids=["the learner's", "a relay's"])
def test_only_actors_on_this_host_look_in_the_key_folder_that_the_launcher_was_given(elsewhere: Address | None) -> None:
    access = LearnerEndpoint(Address("gpu-box", 5555), folder=Path("/own/keys"))
    address = str(elsewhere or access.address)
    options = NOTHING | {"actor_learner": elsewhere, "host": [Host("h2")]}
    (place,) = places("process", access, "lab", 3, options)
    assert f" actor {address} --keys /own/keys --nice 10 " in place.backend.shown(0)
    place.backend.close()
    for way in ("ssh", "slurm"):
        (place,) = places(way, access, "lab", 3, options)
        assert f" actor {address} " in place.backend.shown(0) and "--keys" not in place.backend.shown(0)
    (place,) = places("ray", access, "lab", 3, options)
    assert isinstance(place.backend, RayBackend)
    assert "--keys" not in place.backend._plan.words
    place.backend.close()


def test_the_learners_own_pair_is_a_way_in_for_actors_on_its_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    KeyPair.generate("learner").write(tmp_path / "keys" / LEARNER_PAIR)
    said = a3cd("launcher", "localhost", "--keys", "keys", "--slots", 1, "--name", "x", "--dry-run").output
    assert "(with the key learner): 1 slots" in said
    assert f" actor {LEARNER} --keys {tmp_path / 'keys'} --nice 10 --name learner/x-0 --launcher learner/x " in said


@pytest.mark.parametrize(
    ("way", "kind"),
    [("systemd", SystemdBackend), ("ssh", SshBackend), ("slurm", SlurmBackend), ("command", CommandBackend)],
)
def test_the_other_ways(way: str, kind: type[Backend]) -> None:
    (place,) = made(way, host=[Host("ann@h2")], command=("scale", "{count}"))
    assert isinstance(place.backend, kind)
    assert place.backend.outlives
    assert place.slots == 3


def test_hosts_are_told_the_address_and_not_where_a_credential_is_here() -> None:
    first, second = made(
        "ssh", host=[Host("h2", 2)], hosts=[Host("ann@h3")], remote="/opt/a3cd", allow_module=["games"]
    )
    assert isinstance(second.backend, SshBackend)
    assert (first.name, first.slots, second.name, second.slots) == ("h2", 2, "h3", 1)
    *ssh, line = second.backend._child("", 0)
    assert ssh[-2:] == ["--", "ann@h3"]
    assert line.endswith(
        " /opt/a3cd actor tcp://gpu-box:5555 --insecure --allow-module games --launcher lab --name lab-h3-0 --nice 10"
        " --lifeline"
    )


def test_the_tasks_of_slurm_run_this_a3cd() -> None:
    for options, program in (({}, children.a3cd()[0]), ({"remote": "/x/a3cd"}, "/x/a3cd")):
        (place,) = made("slurm", **options)
        assert isinstance(place.backend, SlurmBackend)
        assert f"exec {program} actor tcp://gpu-box:5555 --credential /keys/c" in place.backend._script


def test_actors_in_ray_are_told_where_the_learner_is_and_of_no_credential_here() -> None:
    asked = {"cpu": "500m", "spot": "1"}
    (place,) = made("ray", actor_learner=Address("gpu", 7), request=asked, allow_module=["games"], runtime_env={"a": 1})
    assert isinstance(place.backend, RayBackend)
    assert not place.backend.outlives
    words = ("actor", "tcp://gpu:7", "--insecure", "--allow-module", "games", "--launcher", "lab")
    assert place.backend._plan == Plan("auto", "lab", words, 0.5, 512 << 20, {"spot": 1.0}, {"a": 1})
    place.backend.close()


def test_pods_are_told_where_the_learner_is_and_of_no_credential_here(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("kubernetes")
    monkeypatch.setattr("deploy.launcher.command.connect", lambda context, namespace: (None, namespace))
    (place,) = made("kubernetes", image="a3cd:1", actor_learner=Address("a3cd-learner", 5555), allow_module=["games"])
    assert isinstance(place.backend, KubernetesBackend)
    assert place.backend.outlives
    (container,) = place.backend._manifest(2, "a3cd:1")["spec"]["containers"]
    assert container["args"] == [
        *("actor", "tcp://a3cd-learner:5555", "--insecure", "--allow-module", "games"),
        *("--launcher", "lab", "--name", "lab-2"),
    ]
    assert container["resources"] == {"requests": {"cpu": "1", "memory": "512Mi"}, "limits": {"memory": "1Gi"}}


@pytest.mark.parametrize(
    ("access", "options", "text"),
    [
        (GPU_BOX, {}, "needs --image"),
        (GPU_BOX, {"image": "a3cd", "secret": "keys"}, "pods need a way in: --secret NAME"),
        (LearnerEndpoint(Address("gpu-box", 5555)), {"image": "a3cd"}, "pods need a way in: --secret NAME"),
        (
            LearnerEndpoint(Address("localhost", 5555)),
            {"image": "a3cd", "secret": "keys"},
            "no pod reaches the learner",
        ),
    ],
)
def test_pods_that_could_not_play(access: LearnerEndpoint, options: dict[str, Any], text: str) -> None:
    with pytest.raises(click.UsageError, match=text):
        places("kubernetes", access, "lab", 3, NOTHING | options)


@pytest.mark.parametrize("way", sorted(EXTRAS))
def test_an_extra_that_is_not_installed(
    way: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert a3cd("launcher", "localhost", "--slots", 1, "--start-with", way).exit_code == 78
    assert f"needs {way}, which is not installed here: pip install 'a3cd[{way}]'" in caplog.text


def test_a_name_that_stays_where_actors_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.node", lambda: "lab")
    assert default_name("process") == f"lab-{os.getpid()}"
    assert default_name("systemd") == "lab"
    monkeypatch.setattr("platform.node", lambda: "")
    assert default_name("ssh") == "launcher"


def test_users_units_are_named_after_the_user_and_not_after_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    pwd = pytest.importorskip("pwd")
    monkeypatch.setattr("platform.node", lambda: "lab")
    monkeypatch.setenv("LOGNAME", "somebody-else")
    assert default_name("systemd", user=True) == f"lab-{pwd.getpwuid(os.geteuid()).pw_name}"


def test_a_launcher_started_by_hand_has_the_name_that_the_users_units_give_it(
    run: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.node", lambda: "lab")
    monkeypatch.setattr("deploy.launcher.command._login", lambda: "ann")
    a3cd("launcher", "localhost", "--start-with", "systemd", "--slots", 2, "--user")
    _, (place,) = run.arguments
    assert (run.options["name"], place.actors) == ("lab-ann", "lab-ann")


@pytest.mark.parametrize(("manager", "named"), [("system", "%H"), ("user", "%H-%u")])
def test_the_units_name_launcher_and_actors_as_this_module_assumes(manager: str, named: str) -> None:
    units = Path(deploy.__file__).parent / "units" / manager
    assert f" --name {named}-%i --launcher {named} " in (units / "a3cd-actor@.service").read_text()
    assert f" --name {named} " in (units / "a3cd-launcher.service").read_text()


@pytest.mark.parametrize(
    ("way", "name", "options", "known"),
    [
        ("process", "x", {}, "x"),
        ("slurm", "x", {}, "x"),
        ("systemd", "lab", {}, "lab"),
        ("systemd", "a-key/lab", {}, "lab"),
        ("systemd", "x", {}, ""),
        ("systemd", "lab", {"unit": "my-actor@"}, ""),
        ("systemd", "lab-ann", {"user": True}, "lab-ann"),
        ("systemd", "lab", {"user": True}, ""),
        ("command", "x", {"command": ("scale", "{count}")}, ""),
    ],
)
def test_what_the_names_of_actors_begin_with_where_that_is_known(
    way: str, name: str, options: dict[str, Any], known: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.node", lambda: "lab")
    monkeypatch.setattr("deploy.launcher.command._login", lambda: "ann")
    (place,) = made(way, name=name, **options)
    assert place.actors == known
    place.backend.close()


@pytest.mark.parametrize(
    ("way", "options", "why"),
    [
        ("ssh", {"host": [Host("a"), Host("b", 4)]}, "how many actors may run on a"),
    ],
)
def test_what_lacks(way: str, options: dict[str, Any], why: str) -> None:
    with pytest.raises(click.UsageError, match=why):
        made(way, **options)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("--slots 2 --allow-module envs", f"1: * actor {LEARNER} --nice 10 --allow-module envs --name x-1 *"),
        ("--slots 2 --start-with systemd --user", "1: systemctl --user start a3cd-actor@1.service"),
        ("--start-with ssh --host ann@h2:2", f"h2 1: ssh ann@h2 a3cd actor {LEARNER} * --name x-h2-1"),
        ("--slots 2 --start-with slurm --sbatch-option mem=1G", "1: sbatch --array=1 * --mem=1G: * actor *"),
        ("--slots 2 --start-with command --command 'scale {count} {learner}'", f"1: scale 2 {LEARNER}"),
    ],
)
def test_a_dry_run_shows_each_slot_and_starts_nothing(given: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deploy.launcher.shell.run", Stand(AssertionError()))
    monkeypatch.setattr("subprocess.Popen", Stand(AssertionError()))
    result = a3cd("launcher", "localhost", "--name", "x", *shlex.split(given), "--dry-run")
    assert result.exit_code == 0
    head, *slots, end = result.output.splitlines()
    assert head == "launcher x, for the learner at tcp://localhost:5555 (without keys): 2 slots"
    assert len(slots) == 2 and fnmatch(slots[1].strip(), shown), slots
    assert end.startswith("Nothing was started")
