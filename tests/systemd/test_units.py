"""The unit files as files: what systemd, the command line and the security score say of them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from deploy.backends.systemd import _TRANSIENT
from deploy.cli.command import cli
from deploy.install.payload import SYSTEM, USER, Layout, read
from deploy.install.roles import UNITS
from deploy.launcher.command import launcher
from deploy.launcher.options import check_ways

SERVICES = [name for name in UNITS if name.endswith(".service")]
ROOT = Path(__file__).parents[2] / "deploy" / "units"
_BOTH = pytest.mark.parametrize("layout", [SYSTEM, USER], ids=["system", "user"])


def settings(text: str) -> Iterator[tuple[str, str]]:
    """Keys and values, continued lines joined."""
    for line in text.replace("\\\n", " ").splitlines():
        if line and line[0] not in "#;[":
            key, _, value = line.partition("=")
            yield key, value.strip()


def variables(pairs: list[tuple[str, str]]) -> dict[str, str]:
    """What Environment= sets."""
    words = [word for key, value in pairs if key == "Environment" for word in shlex.split(value)]
    return {name: value for name, _, value in (word.partition("=") for word in words)}


def expanded(command: str, given: dict[str, str]) -> list[str]:
    """As systemd makes words of ExecStart=; specifiers become `x`."""
    words: list[str] = []
    for word in command.split():
        if word.startswith("$") and not word.startswith("${"):
            words += given[word[1:]].split()
        else:
            words.append(re.sub(r"\$\{(\w+)\}", lambda match: given[match[1]], word))
    return [re.sub("%[a-zA-Z]", "x", word) for word in words]


def parsed(words: list[str]) -> str:
    """The command that takes these words; raises click.UsageError for one that it does not know."""
    command = cli.get_command(click.Context(cli), words[0])
    assert command is not None
    command.make_context(words[0], words[1:]).close()
    return words[0]


@_BOTH
@pytest.mark.parametrize("name", SERVICES)
def test_the_command_line_is_one_that_a3cd_takes(name: str, layout: Layout) -> None:
    pairs = list(settings(layout.unit(name).decode()))
    (command,) = [value for key, value in pairs if key == "ExecStart"]
    program, *words = expanded(command, variables(pairs))
    assert program == layout.a3cd.replace("~", "x")
    assert parsed(words) == name.partition("-")[2].partition(".")[0].rstrip("@")


@pytest.mark.parametrize(
    ("unit", "drop_in"),
    [
        ("a3cd-learner@.service", "learner-keys.conf"),
        ("a3cd-actor@.service", "peer-keys.conf"),
        ("a3cd-launcher.service", "peer-keys.conf"),
        ("a3cd-evaluator.service", "peer-keys.conf"),
        ("a3cd-relay.service", "learner-keys.conf"),
        ("a3cd-relay.service", "peer-keys.conf"),
    ],
)
def test_with_keys_too(unit: str, drop_in: str) -> None:
    pairs = [*settings(SYSTEM.unit(unit).decode()), *settings(read("drop-ins", drop_in).decode())]
    (command,) = [value for key, value in pairs if key == "ExecStart"]
    plain = expanded(command, variables(list(settings(SYSTEM.unit(unit).decode()))))
    words = expanded(command, variables(pairs))
    assert len(words) > len(plain)
    parsed(words[1:])


def test_no_list_of_devices_keeps_a_gpu_whose_module_is_loaded_late_from_a_learner(tmp_path: Path) -> None:
    pairs = list(settings(read("drop-ins", "learner-gpu.conf").decode()))
    without_list = {"PrivateDevices": "no", "DevicePolicy": "auto", "DeviceAllow": "", "ProtectClock": "no"}
    assert dict(pairs).items() >= without_list.items()
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    name = "a3cd-learner@.service"
    whole = SYSTEM.unit(name).decode().replace(SYSTEM.a3cd, "/bin/true")
    drop_in = read("drop-ins", "learner-gpu.conf").decode().replace("/usr/bin/nvidia-modprobe", "/bin/true")
    (tmp_path / name).write_text(whole.replace("[Install]", f"{drop_in}\n[Install]"))
    for other in set(UNITS) - {name}:
        (tmp_path / other).write_text(SYSTEM.unit(other).decode().replace(SYSTEM.a3cd, "/bin/true"))
    assert _verified(tmp_path / name, SYSTEM) == ""


@_BOTH
@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_watched_and_ends_well(name: str, layout: Layout) -> None:
    found = dict(settings(layout.unit(name).decode()))
    expected = {
        "Type": "notify",
        "KillMode": "mixed",
        "SuccessExitStatus": "143",
        "StartLimitIntervalSec": "0",
        "RestartPreventExitStatus": "2 78" if "learner" in name else "2",
    }
    assert found.items() >= expected.items()
    assert {"WatchdogSec", "TimeoutStartSec", "TimeoutStopSec", "Restart", "RestartSec", "Slice"} <= found.keys()
    assert found["PartOf"] == found["WantedBy"] == "a3cd.target"


@_BOTH
def test_an_actor_that_is_killed_for_memory_does_not_end_the_launcher_and_its_others(layout: Layout) -> None:
    assert ("OOMPolicy", "continue") in settings(layout.unit("a3cd-launcher.service").decode())


@_BOTH
def test_systemd_has_nothing_to_say_of_them(layout: Layout, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    for name in UNITS:
        text = layout.unit(name).decode().replace(layout.a3cd.replace("~", "%h"), "/bin/true")
        (tmp_path / name).write_text(text)
    assert {name: said for name in UNITS if (said := _verified(tmp_path / name, layout))} == {}
    with (tmp_path / UNITS[0]).open("a") as file:
        file.write("Nonsense=1\n")
    assert "Nonsense" in _verified(tmp_path / UNITS[0], layout)


def _verified(unit: Path, layout: Layout) -> str:
    """What systemd says of a unit, or an instance of it; its exit code is 0 for an unknown key."""
    scope, instance = "--user" if layout.user else "--system", unit.with_name(unit.name.replace("@.", "@1."))
    command = ["systemd-analyze", scope, "verify", "--man=no", str(instance)]
    environment = os.environ | {"XDG_RUNTIME_DIR": str(unit.parent)}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment).stderr


@pytest.mark.parametrize("name", SERVICES)
def test_the_security_score_is_under_two(name: str, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager"]
    done = subprocess.run([*command, str(ROOT / "system" / name)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    bare = tmp_path / name
    bare.write_text("[Service]\nExecStart=/bin/true\n")
    assert subprocess.run([*command, str(bare)], capture_output=True, check=False).returncode != 0


def test_every_environment_sample_sets_nothing_and_names_what_the_units_read() -> None:
    read_somewhere = "".join(SYSTEM.unit(name).decode() for name in SERVICES)
    for file in (ROOT / "environment").iterdir():
        lines = file.read_text().splitlines()
        assert all(line.startswith("#") or not line for line in lines), file
        for variable in re.findall(r"^#(A3CD_\w+)=", file.read_text(), re.MULTILINE):
            assert f"{{{variable}}}" in read_somewhere or f"${variable}" in read_somewhere


def test_each_sample_of_the_launcher_may_stand_alone() -> None:
    pairs = list(settings(SYSTEM.unit("a3cd-launcher.service").decode()))
    (command,) = [value for key, value in pairs if key == "ExecStart"]
    samples = re.findall(r"^#(A3CD_\w+)=(.*)$", read("environment", "launcher.env").decode(), re.MULTILINE)
    assert len(samples) >= 3
    for name, value in samples:
        words = expanded(command, variables(pairs) | {name: value})
        context = launcher.make_context("launcher", words[2:])
        check_ways(context, context.params["start_with"])
        context.close()


def test_the_properties_of_a_transient_unit_are_those_of_the_unit() -> None:
    unit = dict(settings(SYSTEM.unit("a3cd-actor@.service").decode()))
    given = [word.removeprefix("--property=").partition("=") for word in _TRANSIENT if word.startswith("--property=")]
    properties = {key: value for key, _, value in given}
    assert properties.pop("RestartPreventExitStatus") == f"{unit['RestartPreventExitStatus']} 78"
    assert properties == {key: unit[key] for key in properties}


def test_the_users_of_the_units_are_made() -> None:
    made = re.findall(r"^u (\S+)", read("sysusers.conf").decode(), re.MULTILINE)
    assert sorted(dict(settings(SYSTEM.unit(name).decode()))["User"] for name in SERVICES) == sorted(made)
