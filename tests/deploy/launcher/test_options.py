from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from common.errors import ConfigurationError
from deploy.backends.hosts import Host
from deploy.launcher.command import launcher
from deploy.launcher.options import BELONGS, WAYS, Options, gather, with_slots

NOTHING: dict[str, Any] = dict.fromkeys(("hosts", "ssh_config", "remote", "command"))
NOTHING |= dict.fromkeys(("host", "ssh_option", "sbatch_option"), ()) | {"user": False, "unit": "a3cd-actor@"}


def gathered(way: str, **given: Any) -> Options:
    return gather(way, **(NOTHING | given))


def test_nothing_said() -> None:
    assert gathered("process") == Options()


def test_all_that_can_be_said(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("h3:2\n")
    assert gathered(
        "ssh",
        host=("ann@h2",),
        hosts=tmp_path / "hosts",
        ssh_option=("Port=2222",),
        ssh_config=tmp_path / "config",
        remote="/opt/a3cd/bin/a3cd",
    ) == Options(
        hosts=(Host("ann@h2"), Host("h3", 2)),
        ssh_options=("Port=2222",),
        ssh_config=str(tmp_path / "config"),
        remote="/opt/a3cd/bin/a3cd",
    )
    assert gathered("systemd", user=True, unit="lab-actor@") == Options(user=True, unit="lab-actor@")
    assert gathered("slurm", sbatch_option=("partition=cpu", "exclusive")).sbatch_options == (
        "partition=cpu",
        "exclusive",
    )
    assert gathered("command", command="kubectl scale '--replicas={count}' \"sts/a b\"").command == (
        *("kubectl", "scale", "--replicas={count}", "sts/a b"),
    )


@pytest.mark.parametrize(
    ("way", "given", "why"),
    [
        ("systemd", {"unit": "a3cd-actor"}, r"--unit 'a3cd-actor': write a template's name up to its @"),
        ("systemd", {"unit": "-x@"}, "--unit"),
        ("systemd", {"unit": "a/../b@"}, "--unit"),
        ("ssh", {}, "needs --host"),
        ("ssh", {"host": ("a b",)}, "is no host"),
        ("ssh", {"host": ("h2",), "ssh_option": ("BatchMode=no",)}, "a3cd sets BatchMode itself"),
        ("ssh", {"host": ("h2",), "remote": "a3cd; id"}, "no path of a3cd"),
        ("slurm", {"sbatch_option": ("--partition=cpu",)}, "without dashes"),
        ("slurm", {"sbatch_option": ("array=0-9",)}, "a3cd sets array itself"),
        ("command", {}, r"needs --command 'PROGRAM ARG \.\.\.' with \{count\}"),
        ("command", {"command": "scale 3"}, r"with \{count\}"),
        ("command", {"command": "{count}"}, r"with \{count\}"),
        ("command", {"command": "scale '{count}"}, "No closing quotation"),
    ],
)
def test_what_cannot_be(way: str, given: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        gathered(way, **given)


def test_slots() -> None:
    assert with_slots(Options(), "systemd", 3) == (Options(), 3)
    shared, slots = with_slots(Options(hosts=(Host("a"), Host("b", 3))), "ssh", 5)
    assert (shared.hosts, slots) == ((Host("a", 2), Host("b", 3)), 5)
    with pytest.raises(ConfigurationError, match="--slots N says how many"):
        with_slots(Options(), "slurm", None)


def test_every_option_that_not_all_ways_have_is_one_of_the_command() -> None:
    names = {parameter.name for parameter in launcher.params}
    assert set(BELONGS) <= names
    assert set(NOTHING) <= set(BELONGS)
    assert {way for ways in BELONGS.values() for way in ways} == set(WAYS)
