from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from common.errors import ConfigurationError
from common.settings.sections import Settings
from common.settings.validate import check


def settings(**sections: dict[str, Any]) -> Settings:
    return msgspec.convert(sections, Settings)


@pytest.mark.parametrize(
    ("sections", "problem"),
    [
        (
            {"algorithm": {"whole_episodes": True}},
            "algorithm.whole_episodes = true needs environment.num_envs = 1, not 16",
        ),
        (
            {"environment": {"action_masks": True, "frame_stack": 2}},
            "environment.action_masks = true does not go with environment.frame_stack = 2; "
            "gymnasium.wrappers:FrameStackObservation in environment.wrappers stacks observations alone",
        ),
        (
            {"environment": {"action_masks": True, "frame_skip": 4}},
            "environment.action_masks = true does not go with environment.frame_skip = 4: an action may be forbidden",
        ),
        (
            {"environment": {"action_masks": True, "observation": "frames"}},
            'environment.action_masks = true does not go with environment.observation = "frames"',
        ),
        (
            {"algorithm": {"epsilon_finals": [0.1]}},
            "algorithm.epsilon_finals and algorithm.epsilon_probabilities must be equally long, not 1 and 3",
        ),
        (
            {"algorithm": {"epsilon_probabilities": [0.4, 0.3, 0.2]}},
            "algorithm.epsilon_probabilities = [0.4, 0.3, 0.2] must add up to 1, not 0.9",
        ),
        (
            {"algorithm": {"kind": "one-step-sarsa", "rollout_length": 1}},
            'algorithm.kind = "one-step-sarsa" needs algorithm.rollout_length of at least 2, not 1',
        ),
        *(
            (
                {
                    "reproducible": True,
                    "staleness": {"policy": "synchronous"},
                    "optimizer": {"device": "cpu"},
                    **sections,
                },
                f"reproducible = true needs {cure}",
            )
            for sections, cure in (
                ({"staleness": {}}, 'staleness.policy = "synchronous", not "auto"'),
                ({"staleness": {"policy": "synchronous", "share": 0.5}}, "staleness.share = 1, not 0.5"),
                ({"scaling": {"policy": "load"}}, 'scaling.policy = "fixed", not "load"'),
                ({"scaling": {"minimum": 0}}, "scaling.minimum of at least 1, not 0"),
                ({"optimizer": {}}, 'optimizer.device = "cpu", not "auto"'),
                ({"limits": {"seconds": 5.0}}, "limits.seconds = 0, not 5"),
                (
                    {"limits": {"until_return": 5.0, "until_return_of": "evaluation"}},
                    'limits.until_return_of = "training", not "evaluation"',
                ),
                ({"checkpoint": {"return_to_best": True}}, "checkpoint.return_to_best = false"),
                ({"exchange": {"kind": "actions"}}, 'exchange.kind = "gradients" or "trajectories", not "actions"'),
            )
        ),
        (
            {"checkpoint": {"return_to_best": True, "best": False}},
            "checkpoint.return_to_best = true needs checkpoint.best = true",
        ),
        (
            {"checkpoint": {"return_to_best": True, "every_seconds": 0}},
            "checkpoint.return_to_best = true needs checkpoint.every_seconds above 0",
        ),
        (
            {"checkpoint": {"return_to_best": True}, "record": {"gradients": True}},
            "checkpoint.return_to_best = true needs record.gradients = false",
        ),
        (
            {"limits": {"until_return_of": "evaluation"}, "evaluation": {"episodes": 0}},
            'limits.until_return_of = "evaluation" needs evaluation.episodes above 0',
        ),
        ({"optimizer": {"anneal": "linear"}}, 'optimizer.anneal = "linear" needs limits.frames above 0'),
        (
            {"exchange": {"heartbeat_seconds": 30, "expiry_seconds": 30}},
            "exchange.expiry_seconds = 30.0 must be above exchange.heartbeat_seconds = 30.0",
        ),
        (
            {"exchange": {"codec": "top-k", "error_feedback": False}},
            'exchange.codec = "top-k" needs exchange.error_feedback = "auto" or true, not false',
        ),
        (
            {"exchange": {"codec": "none", "error_feedback": True}},
            "exchange.error_feedback = true needs a codec that loses something",
        ),
        ({"exchange": {"codec": "sign", "credit": 0}}, 'exchange.codec = "sign" needs exchange.credit of at least 1'),
        (
            {"exchange": {"kind": "actions"}, "algorithm": {"kind": "ppo"}},
            'exchange.kind = "actions" does not go with algorithm.kind = "ppo", only with a3c or vtrace',
        ),
        (
            {"exchange": {"kind": "actions", "groups": 3}, "environment": {"num_envs": 2}},
            'exchange.kind = "actions" needs environment.num_envs of at least exchange.groups = 3, not 2',
        ),
        (
            {"exchange": {"kind": "actions", "groups": 1}, "environment": {"num_envs": 1}}
            | {"algorithm": {"whole_episodes": True}},
            'exchange.kind = "actions" needs algorithm.whole_episodes = false',
        ),
        (
            {"exchange": {"kind": "actions"}, "staleness": {"policy": "synchronous"}},
            'exchange.kind = "actions" needs staleness.policy = "scale", not "synchronous"',
        ),
        (
            {"exchange": {"kind": "actions", "codec": "int8"}},
            'exchange.kind = "actions" sends no gradients: leave exchange.codec = "int8" out',
        ),
        (
            {"exchange": {"kind": "actions", "weights": "delta"}},
            'exchange.kind = "actions" sends no weights: leave exchange.weights = "delta" out',
        ),
        (
            {"exchange": {"robust": "agreement", "kind": "trajectories"}},
            'exchange.robust = "agreement" judges gradients of actors: it needs exchange.kind = "gradients"',
        ),
        (
            {"scaling": {"policy": "load", "minimum": 5, "maximum": 4}},
            "scaling.maximum = 4 must be at least scaling.minimum = 5",
        ),
        (
            {"scaling": {"policy": "episode-duration", "additions": [1, 2]}},
            "scaling.thresholds_relative and scaling.additions must be equally long, at least one each, not 3 and 2",
        ),
        (
            {"scaling": {"policy": "episode-duration", "additions": [], "thresholds_relative": []}},
            "equally long, at least one each, not 0 and 0",
        ),
        (
            {"scaling": {"policy": "episode-duration", "unit": "seconds", "thresholds_seconds": [20, 20, 60]}},
            "scaling.thresholds_seconds = [20.0, 20.0, 60.0] must rise",
        ),
        (
            {"scaling": {"policy": "episode-duration", "thresholds_seconds": [1, 2, 3]}},
            'scaling.thresholds_seconds needs scaling.unit = "seconds", not "relative"',
        ),
        (
            {"scaling": {"policy": "episode-duration", "unit": "seconds", "form": "linear", "every_relative": 3}},
            'scaling.every_relative needs scaling.unit = "relative", not "seconds"',
        ),
        (
            {"scaling": {"policy": "episode-duration", "additions": [1, 3, 2]}},
            "scaling.additions = [1, 3, 2] must rise",
        ),
        ({"optimizer": {"learning_rate": float("inf")}}, "optimizer.learning_rate = inf: must be a finite number"),
        ({"limits": {"until_return": float("nan")}}, "limits.until_return = nan: must be a finite number"),
        ({"scaling": {"thresholds_seconds": [float("inf")]}}, "scaling.thresholds_seconds = inf: must be"),
        ({"environment": {"options": {"gravity": float("-inf")}}}, "environment.options.gravity = -inf: must be"),
        (
            {"environment": {"num_envs": 1024}, "algorithm": {"rollout_length": 33}},
            "environment.num_envs = 1024, algorithm.rollout_length = 33, exchange.accumulate = 4: 69,632 episodes "
            "could end in what one message tells, which holds at most 65,536; lower one of these",
        ),
        (
            {"algorithm": {"kind": "ppo", "rollout_length": 2048}, "environment": {"num_envs": 65}},
            "environment.num_envs = 65, algorithm.rollout_length = 2048: 66,560 episodes could",
        ),
        (
            {"environment": {"options": {"max_episode_steps": 1000}}},
            "environment.options.max_episode_steps: this is a setting of its own, environment.max_episode_steps",
        ),
        (
            {"network": {"kind": "my.networks:Small", "shared": False}},
            "network.shared = false: leave it out, my.networks:Small settles itself what is shared",
        ),
        (
            {"network": {"kind": "my.networks:Small", "lstm": 8}},
            "network.lstm = 8: leave it out, my.networks:Small has no state to carry",
        ),
        ({"network": {"shared": False, "lstm": 8}}, "network.lstm = 8 needs network.shared = true"),
        (
            {"staleness": {"policy": "compensate"}, "exchange": {"accumulate": 1}},
            "must know the weights of each gradient: it needs algorithm.refresh = false",
        ),
        (
            {"staleness": {"policy": "compensate"}, "algorithm": {"refresh": False}},
            "it needs exchange.accumulate = 1, not 4",
        ),
        (
            {"staleness": {"policy": "synchronous"}, "exchange": {"credit": 0}},
            'staleness.policy = "synchronous" needs exchange.credit = 1, not 0',
        ),
        ({"staleness": {"policy": "synchronous"}, "exchange": {"credit": 2}}, "needs exchange.credit = 1, not 2"),
        (
            {"staleness": {"policy": "synchronous", "drop_above": 3}},
            'staleness.drop_above = 3 means nothing with staleness.policy = "synchronous"',
        ),
        (
            {"algorithm": {"kind": "a2c"}, "exchange": {"kind": "gradients"}},
            'exchange.kind = "gradients" does not go with algorithm.kind = "a2c", which needs "trajectories"; to send '
            'gradients of this loss, use algorithm.kind = "a3c"',
        ),
        (
            {"algorithm": {"kind": "vtrace", "correction": "none"}},
            'algorithm.correction = "none" leaves nothing of algorithm.kind = "vtrace"; use "a2c" for that',
        ),
        (
            {"algorithm": {"kind": "ppo"}, "staleness": {"policy": "scale"}},
            'algorithm.kind = "ppo" needs staleness.policy = "synchronous", not "scale": a batch is what one policy',
        ),
        (
            {"algorithm": {"kind": "ppo"}, "exchange": {"kind": "gradients", "credit": 2}},
            'staleness.policy = "synchronous" needs exchange.credit = 1, not 2',
        ),
        (
            {"algorithm": {"kind": "ppo", "target_kl": 0.01}, "exchange": {"kind": "gradients"}},
            'exchange.kind = "gradients" with algorithm.kind = "ppo" needs algorithm.target_kl = 0, not 0.01',
        ),
        (
            {
                "algorithm": {"kind": "ppo", "refresh": False},
                "exchange": {"kind": "gradients"},
                "staleness": {"policy": "synchronous"},
            },
            "needs algorithm.refresh = true",
        ),
        (
            {
                "algorithm": {"kind": "ppo", "whole_episodes": True},
                "environment": {"num_envs": 1},
                "exchange": {"kind": "gradients"},
                "staleness": {"policy": "synchronous"},
            },
            'algorithm.whole_episodes = true does not go with algorithm.kind = "ppo"',
        ),
        (
            {"algorithm": {"kind": "a2c", "whole_episodes": True}, "environment": {"num_envs": 1}},
            "sends rollouts of one length: it needs algorithm.whole_episodes = false",
        ),
        (
            {"algorithm": {"kind": "vtrace"}, "exchange": {"codec": "int8"}},
            'packs nothing with loss: leave exchange.codec = "int8" out',
        ),
        (
            {"algorithm": {"kind": "vtrace"}, "exchange": {"error_feedback": True}},
            "packs nothing with loss: leave exchange.error_feedback = true out",
        ),
        (
            {
                "algorithm": {"refresh": False},
                "exchange": {"kind": "trajectories", "accumulate": 1},
                "staleness": {"policy": "compensate"},
            },
            'staleness.policy = "compensate" corrects gradients of actors; use "scale" or "synchronous"',
        ),
        (
            {"staleness": {"policy": "synchronous"}, "exchange": {"weights": "delta"}},
            'exchange.weights = "delta" is for broadcasts; staleness.policy = "synchronous" has none, use "auto"',
        ),
        (
            {"exchange": {"kind": "trajectories", "codec": "int8"}},
            'exchange.kind = "trajectories" packs nothing with loss: leave exchange.codec',
        ),
        ({"limits": {"frames": 2**63}}, "limits.frames: must be a whole number of at most 64 bits"),
    ],
)
def test_refused(sections: dict[str, dict[str, Any]], problem: str) -> None:
    with pytest.raises(ConfigurationError, match="^run.toml: .*" + re.escape(problem)):
        check(settings(**sections), "run.toml")


def test_an_algorithm_that_needs_gradients_is_not_told_how_to_send_them() -> None:
    with pytest.raises(ConfigurationError, match=r'"n-step-q", which needs "gradients"$'):
        check(settings(algorithm={"kind": "n-step-q"}, exchange={"kind": "trajectories"}))


@pytest.mark.parametrize(
    "sections",
    [
        {},
        {"algorithm": {"whole_episodes": True}, "environment": {"num_envs": 1}},
        {"optimizer": {"anneal": "linear"}, "limits": {"frames": 1}},
        # With a fixed number of actors, the minimum counts and the rest is not looked at.
        {"scaling": {"policy": "fixed", "minimum": 8, "maximum": 2, "additions": []}},
        {"scaling": {"policy": "episode-duration", "form": "linear", "additions": []}},
        {"staleness": {"policy": "synchronous"}},
        {"reproducible": True, "staleness": {"policy": "synchronous"}, "optimizer": {"device": "cpu"}},
        {
            "staleness": {"policy": "compensate", "drop_above": 3},
            "algorithm": {"refresh": False},
            "exchange": {"accumulate": 1, "credit": 0},
        },
        {"limits": {"frames": 2**63 - 1}},
        {"exchange": {"kind": "trajectories"}},
        {"optimizer": {"device": "cuda"}, "exchange": {"codec": "int8"}, "network": {"kind": "conv-nature"}},
        {"optimizer": {"device": "auto"}, "exchange": {"robust": "agreement"}},
        {"optimizer": {"device": "cuda"}, "exchange": {"codec": "int8", "kind": "gradients"}},
        {"algorithm": {"kind": "vtrace"}, "exchange": {"codec": "none", "entropy_coder": "zstd"}},
        {
            "algorithm": {"kind": "ppo", "epochs": 10},
            "exchange": {"kind": "gradients"},
            "staleness": {"policy": "synchronous", "share": 0.8},
        },
        {"algorithm": {"kind": "ppo", "target_kl": 0.01}},
        {"algorithm": {"kind": "a2c"}, "staleness": {"policy": "scale"}},
        {"exchange": {"codec": "ternary", "error_feedback": True, "credit": 2}},
        {"exchange": {"codec": "int8", "error_feedback": False, "credit": 0}},
        {"environment": {"num_envs": 1024}, "algorithm": {"rollout_length": 32}},
        {"environment": {"num_envs": 64}, "algorithm": {"kind": "ppo", "rollout_length": 2048}},
        {"environment": {"num_envs": 1024}, "algorithm": {"rollout_length": 512}, "exchange": {"kind": "actions"}},
    ],
)
def test_accepted(sections: dict[str, dict[str, Any]]) -> None:
    check(settings(**sections))
