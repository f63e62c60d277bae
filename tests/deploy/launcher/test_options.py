from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from common.host.addresses import Address
from deploy.backends.hosts import Host
from deploy.launcher.command import launcher
from deploy.launcher.options import (
    OPTIONS,
    PROGRAM,
    SBATCH_OPTION,
    SSH_OPTION,
    UNIT_NAME,
    WAYS,
    Checked,
    amount,
    check_ways,
    split_command,
)


def parsed(*arguments: object) -> dict[str, Any]:
    """The values of the options, as the launcher is given them."""
    with launcher.make_context("launcher", ["localhost", *map(str, arguments)]) as context:
        check_ways(context, context.params["start_with"])
        return {option.name or "": context.params[option.name] for option in OPTIONS}


NOTHING = {
    **dict.fromkeys(("hosts", "ssh_config", "remote", "command")),
    "ray": "auto",
    **dict.fromkeys(("runtime_env", "image", "secret", "namespace", "service_account", "context", "actor_learner")),
    **{key: {} for key in ("request", "limit", "node_selector")},
    **dict.fromkeys(("host", "ssh_option", "sbatch_option", "allow_module"), ()),
    "user": False,
    "unit": "a3cd-actor@",
    "prestart": 0,
}


def test_all_that_can_be_said(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("h3:2\n")
    assert parsed() == NOTHING
    assert parsed("--start-with", "systemd", "--user", "--unit", "lab@") == NOTHING | {"user": True, "unit": "lab@"}
    ssh = ("--host", "ann@h2", "--hosts", tmp_path / "hosts", "--ssh-option", "Port=2222", "--remote", "/opt/a3cd")
    assert parsed("--start-with", "ssh", *ssh, "--ssh-config", tmp_path / "hosts") == NOTHING | {
        "host": (Host("ann@h2"),),
        "hosts": [Host("h3", 2)],
        "ssh_option": ("Port=2222",),
        "remote": "/opt/a3cd",
        "ssh_config": tmp_path / "hosts",
    }
    slurm = parsed("--start-with", "slurm", "--sbatch-option", "partition=cpu", "--sbatch-option", "exclusive")
    assert slurm["sbatch_option"] == ("partition=cpu", "exclusive")
    pods = ("--image", "a3cd:1", "--request", "cpu=500m", "--request", "memory=1Gi", "--node-selector", "pool=a")
    kubernetes = parsed("--start-with", "kubernetes", *pods, "--actor-learner", "gpu:7")
    assert (kubernetes["request"], kubernetes["limit"]) == ({"cpu": "500m", "memory": "1Gi"}, {})
    assert (kubernetes["node_selector"], kubernetes["actor_learner"]) == ({"pool": "a"}, Address("gpu", 7))
    (tmp_path / "env").write_text('{"pip": ["a3cd"]}')
    ray = parsed("--start-with", "ray", "--ray", "ray://head:10001", "--runtime-env", tmp_path / "env")
    assert (ray["ray"], ray["runtime_env"]) == ("ray://head:10001", {"pip": ["a3cd"]})
    command = parsed("--start-with", "command", "--command", "kubectl '--replicas={count}' \"sts/a b\"")
    assert command["command"] == ["kubectl", "--replicas={count}", "sts/a b"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--host", "h2"], "--host belongs to --start-with ssh, not to process"),
        (["--user"], "--user belongs to --start-with systemd, not to process"),
        (["--start-with", "ssh", "--unit", "x@"], "--unit belongs to --start-with systemd, not to ssh"),
        (["--start-with", "systemd", "--remote", "a3cd"], "--remote belongs to --start-with ssh or slurm, not"),
        (["--start-with", "systemd", "--allow-module", "x"], "--allow-module belongs to --start-with process"),
        (["--start-with", "ssh", "--host", "a b"], "is no host"),
        (["--start-with", "ssh", "--ssh-option", "BatchMode=no"], "a3cd sets BatchMode itself"),
        (["--start-with", "ssh", "--remote", "a3cd; id"], "no path of a3cd"),
        (
            ["--start-with", "kubernetes", "--request", "cpu"],
            "'cpu': write a resource and its quantity, as in cpu=500m",
        ),
        (["--start-with", "kubernetes", "--limit", "memory=1GB"], "'memory=1GB': write a resource"),
        (["--start-with", "kubernetes", "--limit", "cpu=1", "--limit", "cpu=2"], "cpu is given twice"),
        (["--start-with", "kubernetes", "--node-selector", "=x"], "write a label of nodes, as in pool=actors"),
        (["--start-with", "kubernetes", "--secret", "My Secret"], "a name in Kubernetes is of a-z, 0-9, - and ."),
        (["--start-with", "kubernetes", "--image", "--x"], "write an image, as in registry.lab/a3cd:0.2"),
        (["--start-with", "ray", "--ray", "head"], "write auto, HEAD:6379 or ray://HEAD:10001"),
        (["--start-with", "ray", "--runtime-env", "/no/file"], "/no/file"),
        (["--start-with", "slurm", "--request", "cpu=1"], "--request belongs to --start-with ray or kubernetes, not"),
        (["--secret", "x"], "--secret belongs to --start-with kubernetes, not to process"),
    ],
)
def test_what_cannot_be(arguments: list[str], text: str) -> None:
    with pytest.raises(click.UsageError, match=text):
        parsed(*arguments)


@pytest.mark.parametrize("content", [b"", b"[]", b'{"a": "\xff"}', b'{"a": ' + b"[" * 5000])
def test_files_that_are_no_object_of_json(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "env"
    file.write_bytes(content)
    with pytest.raises(click.UsageError, match=f"{file}.*; write an object of JSON"):
        parsed("--start-with", "ray", "--runtime-env", file)


@pytest.mark.parametrize(
    ("kind", "text", "why"),
    [
        (UNIT_NAME, "a3cd-actor", "write a template's name up to its @"),
        (UNIT_NAME, "-x@", "write a template's name"),
        (UNIT_NAME, "a/../b@", "write a template's name"),
        (SBATCH_OPTION, "--partition=cpu", "without dashes"),
        (SBATCH_OPTION, "array=0-9", "a3cd sets array itself"),
        (SBATCH_OPTION, "arr=0-9", "a3cd sets arr itself"),
        (SBATCH_OPTION, "clusters=B", "'clusters=B': a3cd would not find these jobs again"),
        (SBATCH_OPTION, "cluster=B", "a3cd would not find these jobs again"),
        (SBATCH_OPTION, "uid=0", "a3cd would not find these jobs again"),
        (Checked(split_command), "", r"with \{count\}"),
        (Checked(split_command), "scale 3", r"with \{count\}"),
        (Checked(split_command), "{count}", r"with \{count\}"),
        (Checked(split_command), "scale '{count}", "No closing quotation"),
    ],
)
def test_words_that_are_wrong(kind: Checked, text: str, why: str) -> None:
    with pytest.raises(click.BadParameter, match=why):
        kind.convert(text, None, None)


@pytest.mark.parametrize("text", ["Port", "-oPort=1", "Port=1\nx", "stricthostkeychecking=no", "BatchMode=no", ""])
def test_options_of_ssh_that_are_none_or_stand_already(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"KEY=VALUE|a3cd sets"):
        SSH_OPTION.convert(text, None, None)


@pytest.mark.parametrize("text", ["a3cd; rm -rf x", "$(id)", "-x", "a b", "a'", "`x`", "a|b", "~x/a3cd", "a\nb", ""])
def test_programs_that_a_shell_would_read_otherwise(text: str) -> None:
    with pytest.raises(click.BadParameter, match="no path of a3cd"):
        PROGRAM.convert(text, None, None)


@pytest.mark.parametrize("text", ["a3cd", "/opt/a3cd/bin/a3cd", "~/.local/bin/a3cd", "a3cd-0.2"])
def test_programs(text: str) -> None:
    assert PROGRAM.convert(text, None, None) == text


def test_every_way_is_known() -> None:
    assert {way for option in OPTIONS for way in option.ways} == set(WAYS)


@pytest.mark.parametrize(
    ("quantity", "number"),
    [("2", 2.0), ("500m", 0.5), ("1.5", 1.5), ("512Mi", 512.0 * 2**20), ("1Ki", 1024.0), ("2G", 2e9), ("3k", 3e3)],
)
def test_amounts(quantity: str, number: float) -> None:
    assert amount(quantity) == number
