"""The commands for a trained agent: what each hands on, and what it says; the parts that work are stand-ins."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from actor.agent.evaluation import Evaluation
from actor.export.exporting import Exported
from tests.helpers.command_line import a3cd

EVALUATION = Evaluation(
    env="CartPole-v1",
    version=7,
    sampled=False,
    seed=3,
    episodes=2,
    mean=150.0,
    low=120.0,
    high=180.5,
    std=50.0,
    median=140.0,
    interquartile_mean=145.25,
    minimum=100.0,
    maximum=200.0,
    length_mean=150.0,
    capped=1,
    max_steps=200,
    returns=[100.0, 200.0],
    lengths=[100, 200],
)


def test_evaluate(stand: Any, tmp_path: Path) -> None:
    evaluate = stand("actor.agent.evaluation.evaluate", EVALUATION)
    result = a3cd("evaluate", tmp_path, "--episodes", 2, "--seed", 3, "--newest", "--max-steps", 200, "--json")
    assert json.loads(result.output)["returns"] == [100.0, 200.0]
    assert evaluate.arguments == (tmp_path,)
    del evaluate.options["looked"]
    assert evaluate.options == {
        "episodes": 2,
        "sampled": None,
        "seed": 3,
        "max_steps": 200,
        "checkpoint": "newest",
    }
    text = a3cd("evaluate", tmp_path, "--sampled").output
    assert (evaluate.options["sampled"], evaluate.options["checkpoint"]) == (True, "best")
    assert text == (
        "CartPole-v1, weights of version 7, best actions: mean return 150.00 (95 % interval by Student's t: 120.00 to "
        "180.50), median 140.00, interquartile mean 145.25, from 100 to 200 over 2 episodes of 150 steps on average, "
        "1 cut off at 200 steps; if nothing happens in them, try --sampled, which draws actions as in training\n"
    )
    a3cd("evaluate", tmp_path, "--greedy")
    assert evaluate.options["sampled"] is False
    one = msgspec.structs.replace(EVALUATION, episodes=1, low=None, high=None)
    stand("actor.agent.evaluation.evaluate", one)
    assert "mean return 150.00, median 140.00" in a3cd("evaluate", tmp_path).output


def test_evaluate_says_how_far_it_is(
    stand: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    evaluate = stand("actor.agent.evaluation.evaluate", EVALUATION)
    times = iter([0.0, 9.0, 11.0, 12.0])
    monkeypatch.setattr("deploy.cli.agents.time", SimpleNamespace(monotonic=lambda: next(times)))
    a3cd("evaluate", tmp_path, "--episodes", 40)
    for played in (0, 3, 3):
        evaluate.options["looked"](played)
    told = "3 of 40 episodes played, after 2 steps of each environment (an episode has at most 27,000)\n"
    assert capsys.readouterr().err == told


def test_play_and_record(stand: Any, tmp_path: Path) -> None:
    play = stand("actor.agent.window.play", None)
    assert a3cd("play", tmp_path, "--seed", 5).exit_code == 0
    assert (play.arguments, play.options) == ((tmp_path,), {"sampled": None, "seed": 5, "checkpoint": "best"})
    record = stand("actor.agent.recording.record", None)
    result = a3cd("record", tmp_path, "--out", tmp_path / "x.gif", "--episodes", 3)
    assert result.output == f"{tmp_path / 'x.gif'}\n"
    assert record.arguments == (tmp_path, tmp_path / "x.gif")
    assert record.options["episodes"] == 3
    assert a3cd("record", tmp_path).exit_code == 2


def test_longest_episodes_and_recordings(stand: Any, tmp_path: Path) -> None:
    """The limits are the parts' own unless the command line says otherwise; the help names them."""
    evaluate = stand("actor.agent.evaluation.evaluate", EVALUATION)
    a3cd("evaluate", tmp_path)
    assert evaluate.options["max_steps"] == 27_000
    assert "default: 27000" in a3cd("evaluate", "--help").output
    record = stand("actor.agent.recording.record", None)
    a3cd("record", tmp_path, "--out", tmp_path / "x.gif")
    assert record.options["max_steps"] is None
    a3cd("record", tmp_path, "--out", tmp_path / "x.gif", "--max-steps", 7)
    assert record.options["max_steps"] == 7
    assert "default: 1000 for .gif, else 27000" in " ".join(a3cd("record", "--help").output.split())


EXPORTED = Exported(
    file="x.onnx", size=20277, env="CartPole-v1", version=391, observations=1008, ties=0, difference=2.4e-6
)


def test_export(stand: Any, tmp_path: Path) -> None:
    export = stand("actor.export.exporting.export", EXPORTED)
    result = a3cd("export", tmp_path, "--to", tmp_path / "x.onnx", "--newest")
    assert (export.arguments, export.options) == ((tmp_path, tmp_path / "x.onnx"), {"checkpoint": "newest"})
    assert result.output == (
        "x.onnx: CartPole-v1, weights of version 391, 20,277 bytes; the same actions as the agent on 1,008 "
        "observations; its numbers differ by 2e-06 at most\n"
    )
    assert json.loads(a3cd("export", tmp_path, "--to", "x.onnx", "--json").output)["ties"] == 0
    stand("actor.export.exporting.export", msgspec.structs.replace(EXPORTED, ties=3))
    assert "but for 3 where two were as good" in a3cd("export", tmp_path, "--to", "x.onnx").output
    assert a3cd("export", tmp_path).exit_code == 2


@pytest.mark.parametrize(
    ("command", "does", "answer", "words"),
    [
        ("evaluate", "actor.agent.evaluation.evaluate", EVALUATION, ["--json"]),
        ("record", "actor.agent.recording.record", None, ["--out", "film.gif"]),
        ("export", "actor.export.exporting.export", EXPORTED, ["--to", "policy.onnx", "--json"]),
    ],
)
def test_what_an_environment_prints_is_no_result(
    command: str, does: str, answer: Any, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plays(*_: Any, **__: Any) -> Any:
        print("the environment says hello")
        return answer

    monkeypatch.setattr(does, plays)
    result = a3cd(command, tmp_path, *words)
    assert result.exit_code == 0
    assert result.stderr == "the environment says hello\n"
    assert result.stdout == ("film.gif\n" if answer is None else msgspec.json.encode(answer).decode() + "\n")
