from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from common.host.security.keys import KeyPair
from deploy.cli.command import cli
from deploy.install import ssh
from deploy.install.ssh import Taken, Way
from deploy.install.step import Plan
from tests.deploy.install.conftest import Fake


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    file = tmp_path / "a3cd-1-py3-none-any.whl"
    file.write_bytes(b"a wheel")
    return file


def a3cd(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["deploy", *map(str, arguments)])


def lines(result: Result) -> list[str]:
    assert result.exit_code == 0, result.output
    return result.output.splitlines()


def test_a_dry_run_prints_every_step_and_connects_to_nothing(fake: Fake, wheel: Path, tmp_path: Path) -> None:
    config = tmp_path / "run.toml"
    config.write_text("seed = 1\n")
    told = lines(a3cd("learner", "--to", "root@gpu", "--config", config, "--wheel", wheel, "--dry-run"))
    assert told[0] == "root@gpu: learner of run run at tcp://0.0.0.0:5555: would see to it that there is"
    for what in ("file /etc/a3cd/runs/run.toml", "key pair of the learner", "a3cd-learner@run.service"):
        assert f"  {what}" in told
    KeyPair.generate("learner").write(tmp_path / "keys/learner.key")
    way = ("--learner", "tcp://gpu:5555", "--keys", tmp_path / "keys", "--wheel", wheel, "--dry-run")
    told = lines(a3cd("actors", "--to", "root@h2", "root@h3", "--slots", 3, *way))
    assert [line for line in told if not line.startswith(" ")] == [
        f"root@{host}: 3 actors for tcp://gpu:5555: would see to it that there is" for host in ("h2", "h3")
    ]
    assert "  file /etc/a3cd/keys/gpu_5555.credential, unless there is one" in told
    told = lines(a3cd("launcher", "--to", "root@h2", "--slots", 3, *way))
    assert "  file /etc/polkit-1/rules.d/50-a3cd.rules" in told
    assert lines(a3cd("upgrade", "--user", "--to", "h2", "--wheel", wheel, "--dry-run"))[-1] == "  restart of what runs"
    assert "  no /opt/a3cd" in lines(a3cd("remove", "--to", "h2", "--dry-run"))
    assert fake.calls == []
    assert not (tmp_path / "keys/allowed").exists()


def test_it_says_what_it_did_and_then_that_there_is_nothing_to_do(
    fake: Fake, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def here(way: Way) -> Way:
        return Way(way.target, way.words, way.python, root=str(fake.root))

    look, act = ssh.look, ssh.act
    monkeypatch.setattr(ssh, "look", lambda way, plan: look(here(way), plan))
    monkeypatch.setattr(ssh, "act", lambda way, *others: act(here(way), *others))
    deploy = ("actors", "--to", "root@box", "--learner", "tcp://localhost:5555", "--wheel", wheel)
    told = lines(a3cd(*deploy))
    assert told[:2] == ["root@box: 2 actors for tcp://localhost:5555", "  virtual environment /opt/a3cd"]
    assert told[-1] == "  a3cd-actor@0.service a3cd-actor@1.service"
    assert lines(a3cd(*deploy)) == ["root@box: 2 actors for tcp://localhost:5555: nothing to do"]
    told = lines(a3cd("remove", "--to", "root@box"))
    assert told[-1] == "  kept: /var/lib/a3cd (runs) and /etc/a3cd (settings, keys)"


def test_status_shows_what_hosts_say(monkeypatch: pytest.MonkeyPatch) -> None:
    def act(way: Way, plan: Plan, due: object, told: object) -> None:
        for step in plan.steps:
            told(Taken(step, "done", f"{step.what} one\n{step.what} two"))  # type: ignore[operator]

    monkeypatch.setattr(ssh, "look", lambda way, plan: [Taken(step, "due", "") for step in plan.steps])
    monkeypatch.setattr(ssh, "act", act)
    assert lines(a3cd("status", "--to", "box")) == [
        *("box: status", "  version one", "  version two", "  units one", "  units two"),
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["status"], 2, "Missing option '--to'"),
        (["status", "--to", "a b"], 78, "'a b' is no host: write USER@HOST"),
        (["status", "--to", "box", "--user", "--sudo"], 2, "--sudo is for system units"),
        (["actors", "--to", "box", "--learner", "gpu", "--wheel", "WHEEL", "--keys", "none"], 78, "--invite-from"),
        (["actors", "--to", "box", "--learner", "gpu", "--wheel", "nowhere"], 78, "nowhere does not exist"),
        (["learner", "--to", "box", "--config", "none.toml", "--wheel", "WHEEL"], 78, "none.toml"),
        (["learner", "--to", "box", "--config", "RUN", "--bind", "tcp://*:0", "--wheel", "WHEEL"], 78, "needs a port"),
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
