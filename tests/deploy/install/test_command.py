from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from common.host.security import allowed
from common.host.security.credential import Credential
from common.host.security.keys import KeyPair
from deploy.cli.command import cli
from deploy.install import command
from tests.deploy.install.conftest import Fake


@pytest.fixture(autouse=True)
def _system(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "SYSTEM", fake.system)


def a3cd(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["deploy", *map(str, arguments)])


def lines(result: Result) -> list[str]:
    assert result.exit_code == 0, result.output
    return result.output.splitlines()


def test_a_dry_run_prints_every_change_and_makes_none(fake: Fake, wheel: Path, tmp_path: Path) -> None:
    config = tmp_path / "run.toml"
    config.write_text("seed = 1\n")
    told = lines(a3cd("learner", "--to", "root@gpu", "--config", config, "--wheel", wheel, "--dry-run"))
    assert told[0] == "root@gpu: learner: would change"
    for what in (
        f"file {fake.system.config}/runs/run.toml",
        f"key pair {fake.system.keys}/learner.key",
        "a3cd-learner@run.service",
    ):
        assert f"  {what}" in told
    KeyPair.generate("learner").write(tmp_path / "keys/learner.key")
    peers = ("--learner", "tcp://gpu:5555", "--keys", tmp_path / "keys", "--wheel", wheel, "--dry-run")
    told = lines(a3cd("launcher", "--to", "root@h2", "root@h3", "--slots", 3, *peers))
    assert [line for line in told if not line.startswith(" ")] == [
        "root@h2: launcher: would change",
        "root@h3: launcher: would change",
    ]
    assert "  credential gpu_5555.credential" in told
    assert list(fake.root.iterdir()) == []
    assert not (tmp_path / "keys/allowed").exists()


def test_it_prints_what_it_changed_and_then_that_there_is_nothing_to_do(
    fake: Fake, wheel: Path, tmp_path: Path
) -> None:
    KeyPair.generate("learner").write(tmp_path / "keys/learner.key")
    words = ("actors", "--to", "root@h2", "--learner", "tcp://gpu:5555", "--keys", tmp_path / "keys", "--wheel", wheel)
    told = lines(a3cd(*words))
    assert told[:2] == ["root@h2: actors", f"  virtual environment {fake.system.venv} of python3"]
    assert "  a3cd-actor@0.service a3cd-actor@1.service" in told
    assert lines(a3cd(*words)) == ["root@h2: actors: nothing to do"]
    written = Credential.read(Path(fake.system.keys, "gpu_5555.credential"))
    assert allowed.read(tmp_path / "keys/allowed") == {written.pair.public: allowed.Allowed("h2")}
    assert [call for call in fake.calls if written.pair.secret in call] == []
    words = ("relay", "--to", "root@h2", "--learner", "tcp://gpu:5555", "--keys", tmp_path / "keys", "--wheel", wheel)
    assert "  a3cd-relay.service" in lines(a3cd(*words, "--mbit", 800))
    assert {(one.name, one.roles) for one in allowed.read(tmp_path / "keys/allowed").values()} == {
        ("h2", allowed.USUAL_ROLES),
        ("h2-relay", ("relay",)),
    }
    assert lines(a3cd("upgrade", "--to", "root@h2", "--wheel", wheel))[-1] == "  restart of what runs"
    assert lines(a3cd("status", "--to", "root@h2")) == ["root@h2: status"]
    assert "systemctl --system list-units --all --plain --no-legend a3cd*" in fake.calls
    assert lines(a3cd("remove", "--to", "root@h2"))[-1].startswith("  kept: ")


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="a pipe as a file")
def test_the_settings_may_come_from_a_pipe(fake: Fake, wheel: Path) -> None:
    source, end = os.pipe()
    os.write(end, b"seed = 7\n")
    os.close(end)
    lines(a3cd("learner", "--to", "root@gpu", "--config", f"/dev/fd/{source}", "--name", "mine", "--wheel", wheel))
    os.close(source)
    assert Path(fake.system.config, "runs/mine.toml").read_text() == "seed = 7\n"


PEERS = ["--to", "box", "--wheel", "WHEEL"]


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["status"], 2, "Missing option '--to'"),
        (["status", "--to", "a b"], 78, "'a b' is no host: write USER@HOST"),
        (["status", "--to", "box", "--user", "--sudo"], 2, "--sudo is for system units"),
        (["actors", "--to", "box", "--learner", "gpu", "--wheel", "WHEEL", "--keys", "none"], 78, "--invite-from"),
        (["actors", *PEERS, "--learner", "gpu", "--keys", "k", "--invite-from", "gpu"], 2, "give one of them"),
        (["actors", *PEERS, "--learner", "localhost", "--invite-from", "gpu"], 2, "is reached without keys"),
        (["relay", *PEERS, "--learner", "gpu", "--keys", "k", "--insecure"], 2, "--insecure is without keys"),
        (["actors", "--to", "box", "--learner", "gpu", "--wheel", "nowhere"], 78, "nowhere does not exist"),
        (["learner", "--to", "box", "--config", "none.toml", "--wheel", "WHEEL"], 78, "none.toml"),
        (["learner", "--to", "box", "--config", "RUN", "--bind", "tcp://*:0", "--wheel", "WHEEL"], 78, "needs a port"),
        (["relay", "--to", "box", "--learner", "gpu", "--bind", "tcp://*:0", "--wheel", "WHEEL"], 78, "needs a port"),
        (["learner", "--to", "box", "--config", "RUN", "--name", "a b", "--wheel", "WHEEL"], 78, "no name for a run"),
    ],
)
def test_misused(
    fake: Fake,
    wheel: Path,
    tmp_path: Path,
    arguments: list[str],
    code: int,
    text: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "run.toml").write_text("seed = 1\n")
    known = {"WHEEL": str(wheel), "RUN": str(tmp_path / "run.toml")}
    result = a3cd(*(known.get(word, word) for word in arguments))
    assert (result.exit_code, fake.calls) == (code, [])
    assert text in result.output + caplog.text


def test_a_learner_is_deployed_with_torch_and_the_extra_of_its_environment(
    fake: Fake, wheel: Path, tmp_path: Path
) -> None:
    (tmp_path / "run.toml").write_text('environment.id = "FlappyBird-v0"')
    words = ("learner", "--to", "root@gpu", "--config", tmp_path / "run.toml", "--wheel", wheel, "--dry-run")
    assert f"  a3cd in {fake.system.venv} with flappy,torch" in lines(a3cd(*words))
    assert f"  a3cd in {fake.system.venv} with atari,flappy,torch" in lines(a3cd(*words, "--extras", "atari"))
    wrong = a3cd(*words, "--extras", "atari,flapy")
    assert wrong.exit_code == 78


def test_the_status_of_every_host_is_shown_and_the_last_failure_ends_it(
    fake: Fake, caplog: pytest.LogCaptureFixture
) -> None:
    result = a3cd("status", "--to", "root@h1", "--to", "root@h2", "root@h3")
    assert result.exit_code == 75
    assert [f"h{number}: a3cd is not installed" in caplog.text for number in (1, 2, 3)] == [True, True, True]
