"""What a newcomer types wrong, and what is said: one line that names the value and the cure, and the exit code.

`--dry-run` stands where the command, if it were right, would train: the checks are the same.
"""

from __future__ import annotations

import logging
import shlex
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import gymnasium
import pytest

from common.errors import EXIT_USAGE
from tests.helpers.command_line import a3cd

DRY = "--dry-run"
OWN = """
import gymnasium

class Grid(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)
    def __init__(self, size=3): self.size = size
    def reset(self, *, seed=None, options=None): return self.observation_space.sample(), {}
    def step(self, action): return self.observation_space.sample(), 0.0, True, False, {}

class Shaped(gymnasium.Wrapper):
    pass
"""

MISTAKES = [
    # Which environment?
    ("train", 2, "train what? `a3cd train CartPole-v1`, another of these"),
    ("train CartPole " + DRY, 78, "environment CartPole does not exist; did you mean CartPole-v1"),
    ("train cartpole-v1 " + DRY, 78, "cartpole-v1 does not exist; did you mean CartPole-v1?"),
    ("train CartPole-v7 " + DRY, 78, "CartPole-v7 does not exist; did you mean CartPole-v1"),
    ("train Breakout " + DRY, 78, "Breakout does not exist; did you mean ALE/Breakout-v5?"),
    ("train PongNoFrameskip-v4 " + DRY, 78, "PongNoFrameskip-v4*ALE/Pong-v5"),
    ("train Hoover-v0 " + DRY, 78, "Hoover-v0 does not exist; the module it is in goes before it: module:Id-v0"),
    ("train own.py " + DRY, 78, "own.py: which of its classes? write own.py:NAME, *; it has Grid, Shaped"),
    ("train own " + DRY, 78, "environment own does not exist; did you mean own.py:Grid?"),
    ("train Grid-v0 " + DRY, 78, "Grid-v0 does not exist; did you mean own.py:Grid?"),
    ("train owl.py:Grid " + DRY, 78, "there is no file */owl.py; did you mean own.py?"),
    ("train own:Gird " + DRY, 78, "own (*own.py) has no environment Gird; did you mean Grid?"),
    ("train my_games:Car-v0 " + DRY, 78, "no module named my_games *: start a3cd in the folder"),
    ("train own.py:Grid --set environment.options.sice=4 " + DRY, 78, "own:Grid takes no sice, but size"),
    ("init CartPol-v1", 78, "did you mean CartPole-v1"),
    ("init", 2, "Missing argument 'ENV'. A preset (see `a3cd presets`), any Gymnasium id"),
    ("presets show Cartpole", 78, "no preset is called 'Cartpole'; did you mean CartPole-v1?"),
    ("presets CartPole-v1", 2, "No such command 'CartPole-v1'. Did you mean 'show CartPole-v1'?"),
    # Which setting, and which value?
    ("train CartPole-v1 --set lr=0.1", 78, "lr is no setting; did you mean optimizer.learning_rate?"),
    ("train CartPole-v1 --set optimizer.step_size=1", 78, "it is optimizer.learning_rate now"),
    ("train CartPole-v1 --set optimizer.learning_rat=1", 78, "did you mean optimizer.learning_rate?"),
    ("train CartPole-v1 --set gamma=1", 78, "gamma is no setting; did you mean algorithm.gamma?"),
    ("train CartPole-v1 --set optimizer.learning_rate", 78, "must be section.key=value, such as"),
    ("train CartPole-v1 --set optimizer.learning_rate=fast", 78, '"fast": must be a number above 0'),
    ("train CartPole-v1 --set optimizer.kind=Adam", 78, 'optimizer.kind = "Adam": must be one of * did you mean adam?'),
    ("train CartPole-v1 --set network.hidden=64", 78, "network.hidden = 64: must be a list, *; did you mean [[]64]?"),
    ("train CartPole-v1 --set network.shared=True", 78, 'must be true or false; did you mean true?'),
    ("train CartPole-v1 --set optimizer.device=gpu", 78, 'optimizer.device = "gpu": must be *; did you mean cuda?'),
    ("train CartPole-v1 --set environment.wrappers=own:Shaped", 78, "must be a list, each module:Class"),
    ("train CartPole-v1 --network cnn", 78, 'network.kind = "cnn": must be *; did you mean conv-a3c?'),
    ("train CartPole-v1 --algorithm A3C", 78, '--algorithm: algorithm.kind = "A3C": must be *; did you mean a3c?'),
    ("train CartPole-v1 --algorithm dqn", 78, 'algorithm.kind = "dqn": must be *; did you mean n-step-q?'),
    ("train CartPole-v1 --actors 4-8", 2, "'4-8': write a number, as in 4, or a range, as in 2..8"),
    ("scale", 2, "Missing argument 'LEARNER'"),
    ("scale localhost:1", 2, "Missing argument 'ACTORS'. How many, as in 4, or bounds, as in 2..8."),
    ("scale localhost:1 two", 2, "'two': write a number, as in 4, or a range"),
    ("scale localhost:1 8..2", 2, "'8..2': a range has at least 0 actors, and its maximum is not below its minimum"),
    ("scale localhost:1 5000", 2, "5000 actors: at most 4096"),
    ("stop localhost:1 --timeout 0.1", 75, "no learner answers at tcp://localhost:1 (waited 0.1 s)"),
    ("checkpoint gpu-box:1", 78, "no credential for the learner at tcp://gpu-box:1"),
    ("train CartPole-v1 --actors 0", 2, "'0': a range has at least 1 actor"),
    ("train CartPole-v1 --frames 100k", 2, "'100k' is no whole number: write it in full, as in 100000 or 1e5"),
    ("train CartPole-v1 --seconds 1m", 2, "'1m' is no number: write it in full, as in 90"),
    ("train CartPole-v1 --seed -1", 78, "seed = -1: must be a whole number from 0"),
    ("train CartPole-v1 --gpu", 2, "No such option '--gpu': write --set optimizer.device=cuda."),
    ("train CartPole-v1 --learning-rate 1", 2, "'--learning-rate': write --set optimizer.learning_rate=VALUE."),
    ("train CartPole-v1 --steps 9", 2, "'--steps': write --frames."),
    # Which file, and which run?
    ("train --config no.toml", 78, "no.toml: No such file or directory; `a3cd init ENV` writes such a file"),
    ("check-config own.py", 78, "own.py: is no TOML: Expected '='*(at line 2, column 8)"),
    ("train CartPole-v1 --resume", 78, "--resume needs --run-dir: which run is to go on? (last: the newest)"),
    ("train CartPole-v1 --run-dir . " + DRY, 78, "is not empty and holds no run (there is own.py); choose"),
    ("evaluate", 2, "Missing argument 'RUN'. The folder of a run, * `a3cd runs` lists them."),
    ("evaluate nowhere", 78, "nowhere: there is no such folder; `a3cd runs` lists the runs"),
    ("evaluate own.py", 78, "own.py: holds no run (there is no run.json)"),
    ("record last", 78, "last: there is no run in */runs; give the folder of one"),
    ("record own.py", 2, "Missing option '--out'. The film's file, as in --out agent.gif."),
    ("evaluate .", 78, ".: holds no run (there is no run.json); `a3cd runs` lists those in runs/"),
    ("export own.py", 2, "Missing option '--to'. The file, as in --to policy.onnx"),
    ("export no-run --to policy.h5", 78, "no-run: there is no such folder; `a3cd runs` lists the runs"),
    ("runs nowhere", 78, "nowhere: there is no such folder; `a3cd train` makes runs/"),
    # Which learner?
    ("dashboard", 2, "Missing argument 'LEARNER|RUN...'. Any number of learners, as in gpu-box:5555, and of runs"),
    ("dashboard runs/mien", 2, "runs/mien is no run folder, and no learner: *write tcp://HOST:PORT"),
    ("learner", 2, "a learner needs --config FILE (`a3cd init ENV` writes one), or a run to --resume"),
    ("actor", 2, "Missing argument 'LEARNER'. Its address, as in tcp://gpu-box:5555 or just gpu-box:5555"),
    ("actor http://gpu-box", 2, "'http://gpu-box' is no address: write tcp://HOST:PORT"),
    ("status localhost:99999", 2, "'localhost:99999': port 99999 is above 65535"),
    ("status tcp://127.0.0.1:1 --timeout 0.1", 75, "no learner answers at tcp://127.0.0.1:1"),
    ("launcher localhost", 2, "--slots N says how many actors may run"),
    ("trian CartPole-v1", 2, "No such command 'trian'. Did you mean 'train'?"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The working folder of somebody with an environment in a file, and a log as it was."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(gymnasium.registry, "Grid-v0", raising=False)  # another test's
    (tmp_path / "own.py").write_text(OWN)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    sys.modules.pop("own", None)


@pytest.mark.parametrize(("command", "code", "told"), MISTAKES, ids=[command for command, _, _ in MISTAKES])
def test_a_mistake_is_answered_in_one_line(command: str, code: int, told: str) -> None:
    result = a3cd(*shlex.split(command))
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    *before, line = result.stderr.splitlines()
    assert fnmatch(line, f"*{told}*"), line
    if code == EXIT_USAGE:
        assert any(one.startswith("Usage: ") for one in before)
    else:
        assert before == []


def test_the_same_without_the_mistake_is_taken() -> None:
    """So that it is the mistake that each row is about."""
    for command in ("train own.py:Grid --dry-run", "train CartPole-v1 --frames 1e5 --actors 4..8 --dry-run", "presets"):
        assert a3cd(*shlex.split(command)).exit_code == 0
