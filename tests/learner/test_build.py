from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import learner.build
from common.errors import ConfigurationError, EnvironmentMissingError
from common.rl.networks.model import TorchModel
from common.wire.messages import Welcome
from learner.background import background
from learner.build import check
from learner.parameters.devices import Devices
from tests.helpers.built import PICTURES, SMALL, StartCore, body_of, train, weights_of
from tests.helpers.run import hello_of, sent, settings_of


def test_several_devices_are_for_a_learner_that_computes_gradients(
    start: StartCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learner.build, "open_devices", lambda name: Devices((torch.device("cuda:0"),) * 2))
    with pytest.raises(ConfigurationError, match=r'"cuda:0,cuda:0" is for a learner.*"gradients" its actors do'):
        start("exchange.kind='gradients'")


def test_a_device_that_is_missing_or_slow_is_told_in_the_status(
    start: StartCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learner.build, "open_devices", lambda name: Devices((torch.device("cpu"),), "no GPU"))
    monkeypatch.setattr(learner.build, "bfloat16_trouble", lambda device: f"slow on {device}")
    core = start("optimizer.precision='bfloat16'", "exchange.kind='trajectories'")
    assert (core.run.spec.device, core.run.status(11.0).warnings) == ("cpu", ["no GPU", "slow on cpu"])


def test_what_was_left_open_is_resolved(start: StartCore) -> None:
    core = start()
    spec = core.run.spec
    assert (spec.settings.environment.observation, spec.settings.environment.frame_skip) == ("state", 1)
    assert (spec.settings.network.kind, spec.settings.staleness.policy) == ("dense", "scale")
    assert (spec.weights_format, spec.device, spec.weights_port) == ("fp32", "cpu", 5556)
    assert spec.parameters == weights_of(core).vector.numel() == 4 * 8 + 8 + 8 * 3 + 3
    assert (spec.epoch, core.run.stats.counters.version, core.run.stats.decision.wanted) == (1, 0, 2)
    assert not torch.backends.cudnn.allow_tf32, "float32 is float32 in convolutions, too"


@pytest.mark.parametrize(
    ("assignments", "kind"),
    [((), "gradients"), (("algorithm.kind=a2c",), "trajectories"), (("exchange.kind=trajectories",), "trajectories")],
)
def test_the_exchange_is_resolved_before_the_first_frame(
    start: StartCore, assignments: tuple[str, ...], kind: str
) -> None:
    core = start(*assignments)
    (welcome,) = sent(core.handle(10.0, b"x", hello_of("x"), None), Welcome)
    assert core.run.spec.settings.exchange.kind == welcome.settings["exchange"]["kind"] == kind


@pytest.mark.parametrize(
    ("assignments", "expected"),
    [
        ((), "fp32"),
        (("network.hidden=[512, 1024]",), "fp16"),
        (("exchange.weights=fp16",), "fp16"),
        (("exchange.weights=delta",), "fp32"),
        (("exchange.weights=delta", "network.hidden=[512, 1024]"), "fp16"),
    ],
)
def test_weights_above_a_mebibyte_travel_as_halves(
    start: StartCore, assignments: tuple[str, ...], expected: str
) -> None:
    core = start(*assignments)
    assert core.run.spec.weights_format == expected
    size = {"fp32": 4, "fp16": 2}[expected]
    assert len(body_of(core)) == size * core.run.spec.parameters


def test_the_same_seed_gives_the_same_weights_and_training_changes_them(start: StartCore, tmp_path: Path) -> None:
    core = start("seed=1")
    begun = weights_of(core).vector.clone()
    train(core)
    assert core.run.stats.counters.version == 3
    assert not torch.equal(weights_of(core).vector, begun)
    assert torch.equal(weights_of(start("seed=1")).vector, begun)
    assert not torch.equal(weights_of(start("seed=2")).vector, begun)


def test_moments_too_large_for_a_header_are_refused_at_the_start(start: StartCore) -> None:
    with pytest.raises(ConfigurationError, match=r"the moments of 8000 numbers .* has room for 524288; use false"):
        start("network.normalize=true", "environment.frame_stack=2000")


def test_a_new_run_has_the_background_of_its_environment(start: StartCore) -> None:
    core = start(*PICTURES, "network.normalize=true", "seed=7")
    found = weights_of(core).extras
    np.testing.assert_array_equal(found, background(core.run.spec.settings.environment, 7))


def test_without_normalisation_there_is_no_background(start: StartCore) -> None:
    assert not weights_of(start(*PICTURES)).extras.size


def test_a_missing_environment_is_named(start: StartCore) -> None:
    with pytest.raises(EnvironmentMissingError, match="CartPoll-v1"):
        start("environment.id=CartPoll-v1")


@pytest.mark.parametrize(
    ("assignments", "text"),
    [
        (("environment.id='NotHere-v0'",), "NotHere-v0 does not exist"),
        (("environment.id='Pendulum-v1'", "algorithm.kind='n-step-q'"), "needs a Discrete action space, not Box"),
        (("network.kind='conv-a3c'",), "network.kind"),
        (("optimizer.device='cuda:99'",), "optimizer.device"),
        (("environment.options={gravitas=1}",), "gravitas"),
    ],
)
def test_settings_are_checked_as_at_the_start_without_a_folder(
    assignments: tuple[str, ...], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    spec = check(settings_of(*SMALL)).spec
    assert (spec.settings.network.kind, spec.settings.exchange.kind) == ("dense", "gradients")
    with pytest.raises(ConfigurationError, match=text):
        check(settings_of(*assignments))
    assert list(tmp_path.iterdir()) == []


def test_layers_are_accelerated_where_the_learner_uses_them(start: StartCore, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []
    monkeypatch.setattr(TorchModel, "accelerate", lambda model, probe, **how: asked.append((tuple(probe.shape), how)))
    for setting in ("precision='float32'", "precision='bfloat16'", "compile=true"):
        check(settings_of(*SMALL, "exchange.kind='trajectories'", f"optimizer.{setting}"))
    (warning,) = start("optimizer.compile=true", "exchange.kind='gradients'").run.status(11.0).warnings
    assert 'with exchange.kind = "gradients" its actors do' in warning
    wanted = [{"bfloat16": True, "compiled": False}, {"bfloat16": False, "compiled": True}]
    assert asked == [((2, 4), how) for how in wanted]
