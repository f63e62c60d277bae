"""What deploy/ has besides Python and units: its commands are ones that a3cd takes, and nothing has drifted."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from deploy.cli.command import cli

DEPLOY = Path(__file__).parents[1] / "deploy"


def parse(words: list[str]) -> click.Context:
    """Raises click.UsageError for words that a3cd does not take."""
    command = cli.get_command(click.Context(cli), words[0])
    assert command is not None
    return command.make_context(words[0], words[1:])


@pytest.mark.parametrize("name", ["learner", "launcher"])
def test_containers_of_the_manifests(name: str) -> None:
    text = (DEPLOY / "kubernetes" / f"{name}.yaml").read_text()
    (block,) = re.findall(r"^ +args:\n((?: +- .*\n)+)", text, re.MULTILINE)
    words = [line.partition(" #")[0].strip().removeprefix("- ") for line in block.splitlines()]
    assert parse(words).info_name == name


def test_the_commands_in_the_manifests_make_the_keys_of_their_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    invitation = ""
    texts = [(DEPLOY / "kubernetes" / f"{name}.yaml").read_text() for name in ("learner", "launcher")]
    commands = re.findall(r"`(a3cd keys .+?)`|^#   (a3cd keys .+?)(?: +#.*)?$", "".join(texts), re.MULTILINE)
    for command in map("".join, commands):
        words = shlex.split(command.replace("INVITATION", invitation))
        done = CliRunner().invoke(cli, words[1:])
        assert done.exit_code == 0, f"{command}: {done.output}"
        invitation = next(iter(re.findall("'(.*#.*)'", done.output)), "")
    assert len(commands) == 5
    files = re.findall(r"--from-file=(?:learner\.credential=)?(\S+)", "".join(texts))
    assert {file for file in files if (tmp_path / file).exists()} == set(files) - {"run.toml"}
    assert [line.split()[1:] for line in Path("keys/allowed").read_text().splitlines() if line[0] != "#"] == [
        ["launcher", "launcher"],
        ["actors", "actor"],
    ]


def test_the_probes_ask_the_learner_itself() -> None:
    text = (DEPLOY / "kubernetes" / "learner.yaml").read_text()
    probes = re.findall(r"command: \[/opt/a3cd/bin/a3cd, (.*)\]", text)
    assert len(probes) == 2
    for probe in probes:
        assert parse([word.strip('"') for word in probe.split(", ")]).info_name == "status"


def test_the_kustomization_has_all_manifests_and_their_image() -> None:
    text = (DEPLOY / "kubernetes" / "kustomization.yaml").read_text()
    files = {file.name for file in (DEPLOY / "kubernetes").iterdir()} - {"kustomization.yaml"}
    assert set(re.findall(r"^  - (\S+\.yaml)$", text, re.MULTILINE)) == files
    images = {
        image for file in files for image in re.findall(r"image: (\S+)", (DEPLOY / "kubernetes" / file).read_text())
    }
    assert images == {"a3cd:latest"}
    assert "  - name: a3cd\n" in text


def test_the_manifests_by_kubernetes_schema() -> None:
    validate = pytest.importorskip("kubernetes_validate")
    yaml = pytest.importorskip("yaml")
    for file in (DEPLOY / "kubernetes").iterdir():
        for document in yaml.safe_load_all(file.read_text()) if file.name != "kustomization.yaml" else ():
            validate.validate(document, validate.latest_version(), strict=True)


def test_the_array_script_starts_an_actor(tmp_path: Path) -> None:
    (tmp_path / "a3cd").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / "a3cd").chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "3"}
    script = ["sh", str(DEPLOY / "slurm" / "actors.sbatch")]
    asked = [*script, "tcp://gpu-box:5555", "--insecure"]
    said = subprocess.run(asked, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()
    assert parse(said).params["name"].endswith("-7-3")
    assert subprocess.run(script, env=environment, capture_output=True, check=False).returncode == 2


def test_a_source_distribution_has_what_the_links_in_it_point_to() -> None:
    """A wheel is built of one, too, which fails where a file is missing."""
    root = DEPLOY.parent
    targets = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    included = [root / path.removeprefix("/") for path in targets["sdist"]["include"]]
    links = [file for folder in included for file in folder.rglob("*") if file.is_symlink()]
    assert links
    for link in links:
        assert any(link.resolve().is_relative_to(path) for path in included), link


def test_the_containerfile_copies_all_rooms_and_names_no_base_but_its_argument() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    project = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    for room in set(wheel) - {"a3cd.py"}:
        assert f"COPY {room} /src/{room}\n" in text
    assert re.findall(r"^FROM (\S+)", text, re.MULTILINE) == ["${BASE}", "${BASE}"]
