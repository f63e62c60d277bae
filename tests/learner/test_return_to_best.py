"""The core of a run whose mean return is scripted."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from common.rl.episode import Episode
from common.rl.moments import Moments
from common.run.folder import Checkpoint, RunFolder, RunRecord
from common.run.status import EvaluationStatus
from common.wire.messages import Acknowledgement, Pull
from common.wire.messages import Weights as WeightsMessage
from learner.build import assemble
from learner.core import LearnerCore
from learner.effects import Effect, Finish, Publish, ReadBest, SaveCheckpoint
from learner.health import HOLD_SECONDS
from learner.record.checkpoint import CheckpointWriter
from learner.return_to_best import LASTING_SECONDS, MOST, PAUSE_SECONDS
from learner.run_stats import Counters
from tests.helpers.run import MODEL, gradient_of, hello_of, learner_of, logged, sent, settings_of
from tests.helpers.status import evaluation_status

ON = ("checkpoint.return_to_best=true", "limits.window=4")
BEST_VERSION = 7
STEP = 3
"""Seconds from one episode to the next."""


class Run:
    """Plays with one actor; a checkpoint is on the disk at once."""

    def __init__(self, *assignments: str, **options: Any) -> None:
        self.core, self.noted = learner_of(*ON, *assignments, **options)
        self.now = 0.0
        self._sequences = count(1)
        self.effects = self.core.handle(0.0, b"x", hello_of("x"), None)

    @property
    def counters(self) -> Counters:
        return self.core.run.stats.counters

    def play(self, seconds: int, value: float) -> list[Effect]:
        """Episodes of this return; ends early with the first request for the best checkpoint."""
        effects: list[Effect] = []
        for _ in range(0, seconds, STEP):
            self.now += STEP
            header = gradient_of(next(self._sequences), self.counters.version, episodes=[(value, 20, 0.1)])
            self.core.handle(self.now, b"x", header, b"gradient")
            now = self.core.tick(self.now)
            effects += now
            if self.core.run.saves.writing:
                self.core.saved(self.now, self.counters.version, "")
            if ReadBest() in now:
                break
        return effects

    def rise_and_fall(self) -> None:
        self.play(15, 0.0)
        self.play(60, 100.0)
        assert ReadBest() in self.play(400, 0.0)

    def best(self, **changed: Any) -> Checkpoint:
        fields: dict[str, Any] = {
            "version": BEST_VERSION,
            "score": 100.0,
            "weights": np.array([1.5, BEST_VERSION], np.float32),
            "optimizer": {},
            "state": {"model": MODEL},
        }
        return Checkpoint(**(fields | changed))


def test_a_fall_that_lasts_is_answered_by_the_best_checkpoint_and_a_smaller_step() -> None:
    run = Run()
    run.play(15, 0.0)
    assert ReadBest() not in run.play(60, 100.0)
    fell = run.now
    assert ReadBest() in run.play(400, 0.0)
    assert HOLD_SECONDS + LASTING_SECONDS <= run.now - fell <= HOLD_SECONDS + LASTING_SECONDS + 5 * STEP
    before, version = (run.counters.frames, run.counters.episodes), run.counters.version
    effects = run.core.best_read(run.now, run.best(), "")
    text = "returned to the checkpoint of version 7 (mean return 100), learning rate x 0.5; return 1 of 5"
    assert logged(effects) == [f"warning: {text}"]
    assert run.noted.weights.vector.tolist() == [1.5, BEST_VERSION]
    assert run.noted.weights.optimizer.factor == 0.5
    assert (run.counters.version, run.counters.returns_to_best) == (version + 1, 1)
    assert (run.counters.frames, run.counters.episodes) == before
    status = run.core.run.status(run.now)
    assert (status.best_return, status.learning_rate_factor, status.returns_to_best) == (100.0, 0.5, 1)
    assert text in status.warnings
    assert any(isinstance(effect, Publish) for effect in run.core.flush(run.now + 1)), (
        "actors get these weights as any newer ones"
    )
    (answer,) = sent(run.core.handle(run.now, b"x", Pull(version=version), None), WeightsMessage)
    assert answer.version == version + 1


def test_it_is_in_a_checkpoint_at_once_and_a_resumed_run_keeps_the_step() -> None:
    run = Run()
    run.rise_and_fall()
    run.core.best_read(run.now, run.best(), "")
    (save,) = [effect for effect in run.core.tick(run.now) if isinstance(effect, SaveCheckpoint)]
    counters = save.state["counters"]
    assert (counters["learning_rate_factor"], counters["returns_to_best"]) == (0.5, 1)
    assert (counters["best_return"], counters["lowest_return"]) == (100.0, 0.0)


def test_what_is_under_way_is_older_by_a_version_more() -> None:
    run = Run("staleness.drop_above=0")
    run.rise_and_fall()
    for name in "abcdefghi":  # of ten actors, a step takes two gradients
        run.core.handle(run.now, name.encode(), hello_of(name), None)
    run.core.handle(run.now, b"x", gradient_of(5000, run.counters.version), b"waits")
    steps, version = len(run.noted.steps), run.counters.version
    run.core.best_read(run.now, run.best(), "")
    assert (len(run.noted.steps), run.counters.version) == (steps + 1, version + 2), "what waited is no part of it"
    assert run.noted.added == []
    (answer,) = sent(run.core.handle(run.now, b"x", gradient_of(5001, version), b"late"), Acknowledgement)
    assert answer.verdict == "stale"


def test_what_waits_for_others_is_no_part_of_it_either() -> None:
    """Where a step waits for all actors, those that have sent already played with the worse weights."""
    run = Run("staleness.policy=synchronous")
    run.rise_and_fall()
    run.core.handle(run.now, b"late", hello_of("late"), None)
    run.core.handle(run.now, b"late", gradient_of(1, run.counters.version), b"gradient")
    run.core.handle(run.now, b"x", gradient_of(5000, run.counters.version), b"gradient")
    run.core.handle(run.now, b"x", gradient_of(5001, run.counters.version), b"waits")
    steps, version = len(run.noted.steps), run.counters.version
    effects = run.core.best_read(run.now, run.best(), "")
    assert [answer.verdict for answer in sent(effects, Acknowledgement)] == ["applied"]
    assert (len(run.noted.steps), run.counters.version) == (steps + 1, version + 2)
    assert run.noted.added == []


def test_returns_pause_and_are_bounded() -> None:
    run = Run("checkpoint.return_factor=0.1")
    run.rise_and_fall()
    for number in range(1, MOST + 1):
        run.core.best_read(run.now, run.best(), "")
        assert run.counters.returns_to_best == number
        returned = run.now
        asked = ReadBest() in run.play(800, 0.0)
        assert asked == (number < MOST)
        assert not asked or run.now - returned >= PAUSE_SECONDS
    assert run.counters.learning_rate_factor == pytest.approx(0.1**MOST)


def test_after_a_return_the_mean_is_to_be_of_new_episodes() -> None:
    run = Run()
    run.rise_and_fall()
    run.core.best_read(run.now, run.best(), "")
    for _ in range(500):  # not one episode more
        run.now += STEP
        assert ReadBest() not in run.core.tick(run.now)


def test_a_run_that_recovers_is_left_alone() -> None:
    run = Run()
    run.play(15, 0.0)
    run.play(60, 100.0)
    assert ReadBest() not in run.play(int(HOLD_SECONDS + LASTING_SECONDS) - 20, 0.0)
    assert ReadBest() not in run.play(20, 100.0)
    for _ in range(5):
        assert ReadBest() not in run.play(int(LASTING_SECONDS) - 10, 0.0)
        assert ReadBest() not in run.play(20, 100.0)


def test_without_the_setting_nothing_happens() -> None:
    run = Run("checkpoint.return_to_best=false")
    run.play(15, 0.0)
    run.play(60, 100.0)
    assert ReadBest() not in run.play(400, 0.0)
    assert any("far below its best" in text for text in run.core.run.status(run.now).health)


REASONS: list[tuple[dict[str, Any] | None, str]] = [
    (None, "state.json: checksum differs"),
    ({"score": None}, "that of version 7 (no mean return yet) is no better than the run is now (0.0)"),
    ({"score": 0.0}, "that of version 7 (mean return 0) is no better than the run is now (0.0)"),
    ({"state": {"model": "another"}}, "that of version 7 holds another network"),
    ({"weights": np.zeros(3, np.float32)}, "it holds 3 parameters, not 2"),
    ({"optimizer": {"mean": np.zeros(2, np.float32)}}, "optimizer.kind: sgd needs the state"),
]


@pytest.mark.parametrize(("changed", "why"), REASONS)
def test_one_that_cannot_be_used_is_a_warning_and_changes_nothing(changed: dict[str, Any] | None, why: str) -> None:
    run = Run()
    run.rise_and_fall()
    before = run.noted.weights.vector.tolist(), run.counters.version
    best = None if changed is None else run.best(**changed)
    effects = run.core.best_read(run.now, best, why if best is None else "")
    (line,) = logged(effects)
    assert line.startswith(f"warning: no return to the best checkpoint: {why}")
    assert (run.noted.weights.vector.tolist(), run.counters.version) == before
    assert (run.counters.returns_to_best, run.noted.weights.optimizer.factor) == (0, 1.0)
    asked = run.now
    assert ReadBest() in run.play(800, 0.0), "it is tried again"
    assert run.now - asked >= PAUSE_SECONDS


@pytest.mark.parametrize(
    ("newest", "why"),
    [
        (None, ""),
        (evaluation_status(version=8, mean=60.0), ""),
        (evaluation_status(version=BEST_VERSION, mean=450.0), ""),
        (evaluation_status(version=8, mean=451.0), "(evaluated at 450) is no better than the newest evaluation (451)"),
    ],
)
def test_the_best_by_evaluation_is_compared_with_evaluations(newest: EvaluationStatus | None, why: str) -> None:
    """Its training return is of earlier weights, and may not be known yet."""
    run = Run()
    run.rise_and_fall()
    run.counters.evaluation = newest
    best = evaluation_status(version=BEST_VERSION, mean=450.0)
    (line,) = logged(run.core.best_read(run.now, run.best(score=None, evaluation=best), ""))
    if why:
        assert line == f"warning: no return to the best checkpoint: that of version 7 {why}"
    else:
        assert line.startswith("warning: returned to the checkpoint of version 7 (evaluated at 450), learning rate")


def test_a_run_that_is_over_is_left_as_it_is() -> None:
    run = Run()
    run.rise_and_fall()
    assert any(isinstance(effect, Finish) for effect in run.core.stop(run.now))
    assert run.core.best_read(run.now, run.best(), "") == []
    assert run.counters.returns_to_best == 0


def test_a_resumed_run_that_stands_a_little_below_its_best_has_not_fallen() -> None:
    """Its lowest mean return is that of the whole run, not that of this epoch."""
    saved = Counters(episodes=400, best_return=100.0, lowest_return=0.0)
    run = Run(counters=saved)
    assert ReadBest() not in run.play(600, 90.0)


@pytest.fixture
def built(tmp_path: Path) -> Callable[..., LearnerCore]:
    """Cores of real parts; the first argument is the checkpoint that they go on from."""

    def one(checkpoint: Checkpoint | None, *assignments: str) -> LearnerCore:
        small = ("network.hidden=[8]", "environment.num_envs=2", "limits.window=1", "checkpoint.return_to_best=true")
        folder = RunFolder(tmp_path)
        record = RunRecord(run="a-run", created="", epoch=1, a3cd="")
        parts = assemble(folder, record, settings_of(*small, *assignments), checkpoint, now=10.0)
        return LearnerCore(parts.run, parts.weights, parts.exchange, 10.0)

    return one


@pytest.mark.parametrize(
    "assignments",
    [
        ("network.normalize=true",),
        ("staleness.policy=compensate", "algorithm.refresh=false", "exchange.accumulate=1"),
        ("algorithm.kind=n-step-q", "exchange.weights=delta"),
        ("algorithm.kind=ppo", "environment.reward_normalize=true"),
        ("exchange.kind=trajectories", "optimizer.kind=rmsprop"),
        ("exchange.kind=actions", "environment.reward_normalize=true"),
    ],
)
def test_the_best_checkpoint_is_put_in_place_of_what_followed_it(
    tmp_path: Path, built: Callable[..., LearnerCore], assignments: tuple[str, ...]
) -> None:
    core = built(None, *assignments)
    weights, stats, size = core._weights, core.run.stats, core.run.spec.parameters

    def go_on(value: float) -> None:
        stats.window.add(Episode(value, 10, 0.1))
        counted = core.run.spec.counted
        weights.merge(Moments.from_rows(np.full((3, counted), value)) if counted else Moments.empty(0))
        weights.step(torch.full((size,), value), scale=1.0, frames=50_000 * stats.counters.version)
        weights.end_version()
        stats.stepped({}, 0)

    go_on(9.0)
    save = core._checkpoints.begin(11.0)
    writer = CheckpointWriter(RunFolder(Path(core.run.spec.run_dir)), keep=1, best=True)
    writer.write(save)
    best = {name: tensor.clone() for name, tensor in weights.state().items()}, weights.vector.clone(), weights.moments
    go_on(1.0)
    go_on(2.0)
    effects = core.best_read(12.0, writer.read_best(), "")
    (text,) = logged(effects)
    assert "returned to the checkpoint of version 1 (mean return 9), learning rate x 0.5" in text
    state, vector, moments = best
    assert torch.equal(weights.vector, vector)
    assert all(torch.equal(tensor, state[name]) for name, tensor in weights.state().items())
    assert (weights.moments, stats.counters.version) == (moments, 4)
    writer.write(core._checkpoints.begin(13.0))
    newest = RunFolder(tmp_path).newest()
    assert newest is not None
    resumed = built(newest.read(), *assignments)
    assert resumed._weights.optimizer.factor == 0.5
    assert torch.equal(resumed._weights.vector, vector)
