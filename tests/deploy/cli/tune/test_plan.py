from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from common.errors import ConfigurationError
from common.run import presets
from common.settings.toml import parse
from deploy.cli.tune.plan import FIRST_SEED, Plan, require_same
from tests.helpers.tuning import ONE, plan

DRAWN = {"optimizer.learning_rate": 0.00123456}


def test_a_training_is_of_the_drawn_settings_and_ends_by_its_length_alone() -> None:
    settings = plan(frames=5000, seconds=9.0).training(DRAWN, 2)
    assert (settings.seed, settings.optimizer.learning_rate) == (FIRST_SEED + 2, 0.00123)
    limits = settings.limits
    assert (limits.frames, limits.seconds, limits.until_return) == (5000, 9.0, None)
    assert settings.scaling.most == 2


def test_a_learning_rate_that_falls_keeps_the_frames_it_falls_over() -> None:
    own = presets.for_environment("FlappyBird-v0").limits.frames
    assert plan("FlappyBird-v0", frames=None, seconds=5.0).training(DRAWN, 0).limits.frames == own


def test_what_was_found_is_trained_as_long_as_the_preset_says() -> None:
    text = plan(frames=5000, assignments=("algorithm.gamma=0.9",)).config(DRAWN, ["one", "two"])
    assert text.splitlines()[:2] == ["# one", "# two"]
    settings = parse(text, "it")
    usual = presets.for_environment("CartPole-v1")
    assert (settings.limits, settings.seed) == (usual.limits, usual.seed)
    assert (settings.algorithm.gamma, settings.optimizer.learning_rate) == (0.9, 0.00123)
    assert settings.environment == usual.environment


def test_seeds_are_not_those_of_reports() -> None:
    assert FIRST_SEED >= 1000


@pytest.mark.parametrize(
    ("options", "score"),
    [
        ({"frames": 1000}, "training"),
        ({"frames": None, "seconds": 30.0}, "training"),
        ({"frames": None, "seconds": 120.0}, "evaluation"),
        ({"frames": 1000, "seconds": 120.0}, "training"),
        ({"frames": 1000, "score": "evaluation"}, "evaluation"),
        ({"frames": None, "seconds": 120.0, "simulate": True}, "training"),
        ({"frames": None, "seconds": 120.0, "assignments": ("evaluation.episodes=0",)}, "training"),
        ({"frames": None, "seconds": 120.0, "score": "training"}, "training"),
    ],
)
def test_evaluations_count_where_a_training_has_enough(options: dict[str, Any], score: str) -> None:
    assert plan(**options).score == score


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="give --frames or --seconds"):
        plan(frames=None)
    with pytest.raises(ConfigurationError, match="--simulate has no evaluator"):
        plan(score="evaluation", simulate=True)
    with pytest.raises(ConfigurationError, match=r"evaluation\.episodes = 0"):
        plan(score="evaluation", assignments=("evaluation.episodes=0",))


def test_it_is_kept_as_it_is() -> None:
    one = plan(searched=("network.hidden=[64,64],[128]", "algorithm.gamma=0.9..0.999"))
    again = msgspec.convert(msgspec.json.decode(msgspec.json.encode(one)), Plan)
    assert again == one
    assert [str(axis) for axis in again.axes] == one.space
    assert again.base == presets.for_environment("CartPole-v1")


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"frames": 2000}, "have --frames 1000, not 2000"),
        ({"seconds": 5.0}, "have --seconds None, not 5"),
        ({"seeds": 3}, "have --seeds 1, not 3"),
        ({"score": "evaluation"}, "have --score training, not evaluation"),
        ({"simulate": True}, "have --simulate False, not True"),
        ({"algorithm": "ppo"}, "have algorithm.gae_lambda = 1.0, not 0.95"),
        ({"assignments": ("network.lstm=8",)}, "have network.lstm = 0, not 8"),
        ({"searched": ()}, "have --search optimizer.learning_rate=0.0001..0.01,log, not none"),
        ({"searched": ("optimizer.learning_rate=0.001..0.01",)}, "not --search optimizer.learning_rate=0.001..0.01"),
        (
            {"searched": ("algorithm.gamma=0.9,0.99", *ONE)},
            "no --search algorithm.gamma, not --search algorithm.gamma=",
        ),
    ],
)
def test_another_plan_is_refused_by_what_differs(changed: dict[str, Any], named: str) -> None:
    require_same(plan(), plan(), Path("x.db"))
    with pytest.raises(ConfigurationError) as refused:
        require_same(plan(**changed), plan(), Path("x.db"))
    assert named in str(refused.value)
    assert str(refused.value).startswith("x.db: the study's trials")
