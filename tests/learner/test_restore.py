from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from common.errors import ConfigurationError
from common.rl.model import BACKGROUND
from common.run.folder import Checkpoint
from common.wire.messages import Welcome
from tests.helpers.built import PICTURES, StartCore, body_of, checkpoint_of, train, weights_of
from tests.helpers.run import hello_of, sent


@pytest.mark.parametrize("kind", ["adam", "rmsprop"])
def test_a_restored_run_goes_on_as_if_it_had_not_stopped(start: StartCore, kind: str) -> None:
    core = start(f"optimizer.kind={kind}")
    train(core)
    restored = start(f"optimizer.kind={kind}", checkpoint=dataclasses.replace(checkpoint_of(core), score=1.75))
    assert torch.equal(weights_of(restored).vector, weights_of(core).vector)
    for name, tensor in weights_of(core).optimizer.state().items():
        assert torch.equal(weights_of(restored).optimizer.state()[name], tensor), name
    assert restored.run.spec.epoch == 2 and restored.run.spec.run == core.run.spec.run
    counters = restored.run.stats.counters
    assert (counters.version, counters.frames, counters.gradients, counters.episodes) == (3, 60, 3, 3)
    assert (restored.run.stats.window.mean_return, restored.run.stats.score) == (2.0, 1.75)
    assert restored.run.stats.seconds(10.0) == 2.0
    (welcome,) = sent(restored.handle(10.0, b"y", hello_of("y"), None), Welcome)
    assert (welcome.version, welcome.epoch) == (3, 2)
    train(restored, 1)
    assert restored.run.stats.counters.version == 4


def test_until_its_first_step_a_restored_run_reports_the_learning_rate_of_the_last_one(start: StartCore) -> None:
    settings = "optimizer.anneal=linear", "optimizer.learning_rate=0.5", "limits.frames=100"
    core = start(*settings)
    train(core)
    restored = start(*settings, checkpoint=checkpoint_of(core))
    assert weights_of(restored).optimizer.learning_rate == weights_of(core).optimizer.learning_rate < 0.5


def test_running_statistics_go_out_with_the_weights_and_survive(start: StartCore) -> None:
    normalize = ("network.normalize=true", "environment.reward_normalize=true")
    core = start(*normalize)
    assert (core.run.spec.counted, weights_of(core).extras.tolist()) == (5, [0.0] * 4 + [1.0] * 5)
    before = len(body_of(core))
    train(core)
    assert weights_of(core).moments == (60, [2.0] * 5, [2.0 * 3 + 20.0 * 2] * 5)
    scale = (46 / 60) ** -0.5
    assert weights_of(core).extras.tolist() == pytest.approx([2.0] * 4 + [scale] * 5)
    body = body_of(core)
    assert len(body) == before
    assert body[-36:] == weights_of(core).extras.tobytes()
    restored = start(*normalize, checkpoint=checkpoint_of(core))
    assert weights_of(restored).moments == weights_of(core).moments
    assert np.array_equal(weights_of(restored).extras, weights_of(core).extras)


def test_statistics_that_do_not_fit_are_refused(start: StartCore) -> None:
    core = start("network.normalize=true")
    train(core)
    checkpoint = checkpoint_of(core)
    checkpoint.state["moments"] = [3, [1.0], [1.0]]
    with pytest.raises(ConfigurationError, match="running statistics do not fit"):
        start("network.normalize=true", checkpoint=checkpoint)


def test_a_restored_optimizer_takes_the_step_the_first_would_have_taken(start: StartCore) -> None:
    core = start()
    train(core)
    restored = start(checkpoint=checkpoint_of(core))
    gradient = torch.ones(core.run.spec.parameters)
    for one in (core, restored):
        weights_of(one).step(gradient, scale=1.0, frames=0)
    assert torch.equal(weights_of(restored).vector, weights_of(core).vector)


def test_a_checkpoint_of_another_network_is_refused(start: StartCore) -> None:
    core = start()
    train(core)
    checkpoint = checkpoint_of(core)
    other = Checkpoint(3, None, checkpoint.weights, checkpoint.optimizer, checkpoint.state | {"model": "another"})
    with pytest.raises(ConfigurationError, match="version 3 holds another network"):
        start(checkpoint=other)
    shorter = Checkpoint(3, None, checkpoint.weights[1:], checkpoint.optimizer, checkpoint.state)
    with pytest.raises(ConfigurationError, match="another network"):
        start(checkpoint=shorter)


@pytest.mark.parametrize("counters", [None, {"version": "three"}, {"recent": [[1.0]]}])
def test_a_checkpoint_without_readable_counters_is_refused(start: StartCore, counters: object) -> None:
    core = start()
    checkpoint = checkpoint_of(core)
    broken = Checkpoint(0, None, checkpoint.weights, checkpoint.optimizer, checkpoint.state | {"counters": counters})
    with pytest.raises(ConfigurationError, match="does not fit"):
        start(checkpoint=broken)


def test_an_optimizer_with_other_statistics_is_refused_by_name(start: StartCore) -> None:
    core = start("optimizer.kind=sgd")
    checkpoint = checkpoint_of(core)
    with pytest.raises(ConfigurationError, match="sgd needs the state"):
        start("optimizer.kind=sgd", "optimizer.momentum=0.9", checkpoint=checkpoint)


def test_the_background_is_kept_and_not_made_again(start: StartCore) -> None:
    normalized = (*PICTURES, "network.normalize=true")
    checkpoint = checkpoint_of(start(*normalized))
    kept = np.linspace(1.0, 2.0, 36 * 36 + 1, dtype=np.float32)
    checkpoint.optimizer[BACKGROUND] = kept
    restored = start(*normalized, checkpoint=checkpoint)
    np.testing.assert_array_equal(weights_of(restored).extras, kept)
    np.testing.assert_array_equal(weights_of(restored).state()[BACKGROUND], kept)
    checkpoint.optimizer[BACKGROUND] = kept[1:]
    with pytest.raises(
        ConfigurationError, match="does not fit: the checkpoint's background has 1296 numbers, not 1297"
    ):
        start(*normalized, checkpoint=checkpoint)


VALUES = ("algorithm.kind=n-step-q", "algorithm.target_frames=50")


def test_the_target_network_survives_a_resume(start: StartCore) -> None:
    core = start(*VALUES)
    train(core, 4)  # the third of 20 frames each renewed it
    assert weights_of(core).target is not None
    kept = weights_of(core).target.vector.clone()
    assert not torch.equal(kept, weights_of(core).vector)
    body = body_of(core)
    restored = start(*VALUES, checkpoint=checkpoint_of(core))
    assert weights_of(restored).target is not None
    assert torch.equal(weights_of(restored).target.vector, kept)
    assert weights_of(restored).extras.tolist() == [core.run.stats.counters.frames]
    assert body_of(restored) == body


@pytest.mark.parametrize("parameters", [0, 1])
def test_a_target_network_of_another_size_is_refused(start: StartCore, parameters: int) -> None:
    checkpoint = checkpoint_of(start(*VALUES))
    broken = dataclasses.replace(
        checkpoint, optimizer={**checkpoint.optimizer, "target": checkpoint.weights[:parameters]}
    )
    with pytest.raises(ConfigurationError, match=f"does not fit: its target network has {parameters} parameters"):
        start(*VALUES, checkpoint=broken)


def test_a_checkpoint_without_the_target_network_is_refused(start: StartCore) -> None:
    checkpoint = checkpoint_of(start(*VALUES))
    del checkpoint.optimizer["target"]
    with pytest.raises(ConfigurationError, match="does not fit: its target network has 0 parameters"):
        start(*VALUES, checkpoint=checkpoint)
