"""docs/tutorials/: their files and commands work, in their order, in a folder of somebody who has nothing else."""

from __future__ import annotations

import json
import re
import shutil
import signal
import tomllib
from pathlib import Path

import pytest

import a3cd
from common.errors import EXIT_CONFIGURATION, EXIT_SIGINT, EXIT_SIGTERM
from common.host.addresses import Address
from common.run.folder import RunFolder
from common.wire import sockets
from learner.record.run_lock import create
from tests.helpers.daemons import Daemon, Daemons, free_address, terminate
from tests.helpers.daemons import daemons as some_daemons
from tests.helpers.run import settings_of
from tests.helpers.tutorial import FOLDER, Command, File, Reader, steps

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.long
def test_one_machine(daemons: Daemons) -> None:
    pytest.importorskip("bokeh", reason="needs the extra dashboard")
    page = f"{free_address().host}:{free_address().port}"
    reader = Reader(
        daemons,
        aside=(
            *("a3cd train FlappyBird-v0", "a3cd train --resume"),
            *("a3cd status tcp://localhost:5555 --watch", "a3cd dashboard"),
        ),
        instead={
            "a3cd train FlappyBird-v0": "a3cd train FlappyBird-v0 --actors 1 --set environment.step_seconds=0.01",
            "a3cd dashboard": f"a3cd dashboard --listen {page}",
        },
    )
    first, flappy, status, watch, dashboard, resume, *rest = steps("one-machine")
    reader.follow(first)
    (training,) = reader.follow(flappy)
    training.wait_for_frames(0)
    reader.instead["localhost:5555"] = training.said.partition("listens on tcp://")[2].partition(": ")[0]
    _, watching, showing = reader.follow(status, watch, dashboard)
    watching.wait_for("actors 1/1")
    showing.wait_for(f"1 run at http://{page}/")
    played = interrupted(training)
    (training,) = reader.follow(resume)
    training.wait_for_frames(played)
    interrupted(training)
    evaluation, *_ = reader.follow(*rest)
    assert "mean return 500.00" in evaluation.printed
    assert (daemons.folder / "agent.gif").read_bytes().startswith(b"GIF")
    assert (daemons.folder / "runs" / "first" / "curve.png").exists()


def interrupted(training: Daemon) -> int:
    """By Ctrl-C; the frames that it tells at its end."""
    training.signal(signal.SIGINT)
    assert training.wait() == EXIT_SIGINT
    return training.frames


@pytest.mark.long
def test_own_algorithm(tmp_path: Path) -> None:
    checkout = tmp_path / "a3cd"
    for room in ("a3cd", *a3cd.ROOMS):
        shutil.copytree(ROOT / room, checkout / room, ignore=shutil.ignore_patterns("__pycache__"))
    with some_daemons(checkout, ("env", f"PYTHONPATH={checkout}")) as daemons:
        trainings = Reader(daemons).follow(*steps("own-algorithm"))
        assert len(trainings) == 2
        runs = [tomllib.loads(path.read_text()) for path in sorted(checkout.glob("runs/*/settings.toml"))]
    assert [run["algorithm"]["kind"] for run in runs] == ["better", "better"]
    assert [run["exchange"]["kind"] for run in runs] == ["gradients", "trajectories"]


@pytest.mark.long
def test_own_environment(daemons: Daemons) -> None:
    done = Reader(daemons, instead={"a3cd train": "a3cd train --actors 1"}).follow(*steps("own-environment"))
    printed = [daemon.printed for daemon in done if daemon.arguments[0] == "evaluate"]
    assert len(printed) == 2
    assert all("my_envs:Grid" in text for text in printed)
    assert (daemons.folder / "grid.gif").read_bytes().startswith(b"GIF")
    runs = [RunFolder(path).settings() for path in sorted((daemons.folder / "runs").iterdir())]
    assert [settings.environment.id for settings in runs] == ["my_envs:Grid"] * 3
    assert [settings.limits.frames for settings in runs] == [20_000] * 3
    assert [settings.network.kind for settings in runs] == ["dense", "dense", "my_networks:Small"]


def test_an_actor_elsewhere_needs_the_file(daemons: Daemons, tmp_path_factory: pytest.TempPathFactory) -> None:
    environment, *_ = (step for step in steps("own-environment") if isinstance(step, File))
    Reader(daemons).follow(environment)
    address = free_address()
    config = daemons.config('environment.id = "my_envs.py:Grid"')
    learner = daemons.start("learner", "--config", config, "--bind", address, "--run-dir", "run")
    learner.wait_for("listens on")
    with some_daemons(tmp_path_factory.mktemp("elsewhere")) as elsewhere:
        actor = elsewhere.run("actor", address, "--allow-module", "my_envs", code=EXIT_CONFIGURATION)
        (error,) = actor.errors
        assert f"no module named my_envs in this Python's path or in the working folder {elsewhere.folder}" in error
        assert "each host with actors needs that file" in error
        Reader(elsewhere).follow(environment)
        actor = elsewhere.start("actor", address, "--allow-module", "my_envs.py")
        actor.wait_for("playing my_envs:Grid")
        assert terminate(actor) == [EXIT_SIGTERM]
    assert terminate(learner) == [EXIT_SIGTERM]


def test_when_it_goes_wrong(daemons: Daemons, tmp_path_factory: pytest.TempPathFactory) -> None:
    grid, *_ = (step for step in steps("own-environment") if isinstance(step, File))
    taken, next_one = sockets.reserve_pair(Address("127.0.0.1", 0))
    with taken, next_one, some_daemons(tmp_path_factory.mktemp("gpu-box")) as elsewhere:
        Reader(elsewhere).follow(grid)
        there = free_address()
        config = elsewhere.config('environment.id = "my_envs.py:Grid"')
        elsewhere.start("learner", "--config", config, "--bind", there).wait_for("listens on")
        reader = Reader(
            daemons,
            instead={
                "tcp://gpu-box:5555": str(there),
                "run.toml --bind": "run.toml --keys none --bind",
                "learner --config": "learner --bind tcp://127.0.0.1:5555 --config",
                ":5555": f":{taken.getsockname()[1]}",
            },
        )
        for step in steps("when-it-goes-wrong"):
            if isinstance(step, Command) and "runs/first" in step.line:
                create(daemons.folder / "runs" / "first", settings_of()).close()
            reader.follow(step)


@pytest.mark.long
def test_reading_a_run(daemons: Daemons) -> None:
    Reader(daemons, instead={"a3cd train": "a3cd train --actors 1"}).follow(*steps("reading-a-run"))
    assert (daemons.folder / "runs.png").read_bytes().startswith(b"\x89PNG")
    rows = [path.read_text().splitlines()[-1] for path in daemons.folder.glob("runs/two/*/metrics.jsonl")]
    page = (FOLDER / "reading-a-run.md").read_text(encoding="utf-8")
    named = {name for row in re.findall(r"^\| (`.*?) \|", page, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}
    assert len(rows) == 2
    assert len(named) > 15
    assert named - {"evaluation_return"} <= set(json.loads(rows[0]))
