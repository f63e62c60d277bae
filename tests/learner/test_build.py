from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import learner.build
from common.errors import ConfigurationError, EnvironmentMissingError
from common.rl.networks.model import TorchModel
from common.run.folder import Checkpoint, RunFolder
from common.wire.codecs.registry import make as make_codec
from common.wire.messages import Pull, Welcome
from learner.build import build, check
from learner.core import LearnerCore
from learner.effects import SaveCheckpoint, Send
from learner.parameters.devices import Devices
from learner.parameters.weights import Weights
from learner.record.checkpoint import CheckpointWriter
from learner.record.run_lock import LockedRun, create, resume
from tests.helpers.run import gradient_of, hello_of, sent, settings_of

SMALL = ("network.hidden=[8]", "environment.num_envs=2", "limits.window=3")
Start = Callable[..., LearnerCore]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Builds a new run, or the one in the folder when there is one; the first argument is the checkpoint."""
    owned: list[LockedRun] = []

    def one(*assignments: str, checkpoint: Checkpoint | None = None) -> LearnerCore:
        for run in owned:
            run.close()
        settings = settings_of(*SMALL, *assignments)
        path = tmp_path / "run"
        owned.append(resume(path, settings) if owned else create(path, settings))
        return build(owned[-1], checkpoint, 5556, now=10.0)

    yield one
    for run in owned:
        run.close()
    torch.backends.cudnn.allow_tf32 = True
    torch.set_flush_denormal(False)  # a learner sets it for its process; Hypothesis needs floats as they should be


def test_several_devices_are_for_a_learner_that_computes_gradients(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learner.build, "open_devices", lambda name: Devices((torch.device("cuda:0"),) * 2))
    with pytest.raises(ConfigurationError, match=r'"cuda:0,cuda:0" is for a learner.*"gradients" its actors do'):
        start("exchange.kind='gradients'")


def test_a_device_that_is_missing_or_slow_is_told_in_the_status(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner.build, "open_devices", lambda name: Devices((torch.device("cpu"),), "no GPU"))
    monkeypatch.setattr(learner.build, "bfloat16_trouble", lambda device: f"slow on {device}")
    core = start("optimizer.precision='bfloat16'", "exchange.kind='trajectories'")
    assert (core.run.spec.device, core.run.status(11.0).warnings) == ("cpu", ["no GPU", "slow on cpu"])


def train(core: LearnerCore, steps: int = 3) -> None:
    """Some steps with gradients that an actor might have sent."""
    spec, size = core.run.spec, core.run.spec.parameters
    (welcome,) = sent(core.handle(10.0, b"x", hello_of("x"), None), Welcome)
    codec = make_codec(welcome.codec, size)
    generator = torch.Generator().manual_seed(0)
    for sequence in range(1, steps + 1):
        header = gradient_of(
            sequence,
            core.run.stats.counters.version,
            run=spec.run,
            epoch=spec.epoch,
            model=welcome.model,
            codec=welcome.codec,
            emulator_frames=20,
            episodes=[(float(sequence), 10, 0.1)],
            moments=[(20, [float(sequence)] * counted, [2.0] * counted)] if (counted := spec.counted) else [],
        )
        core.handle(11.0, b"x", header, codec.encode((0.01 * torch.randn(size, generator=generator)).numpy()))


def weights_of(parts: LearnerCore) -> Weights:
    return parts._weights


_numbers = itertools.count()


def body_of(parts: LearnerCore) -> bytes:
    """Of the weights, as a new actor gets them."""
    name = f"new{next(_numbers)}"
    effects = parts.handle(10.0, name.encode(), hello_of(name), None)
    if all(effect.body is None for effect in effects if isinstance(effect, Send)):
        effects += parts.handle(11.0, name.encode(), Pull(version=0, whole=True), None)
    (body,) = (effect.body for effect in effects if isinstance(effect, Send) and effect.body is not None)
    return bytes(body)


def checkpoint_of(parts: LearnerCore) -> Checkpoint:
    """Through the files, as the daemon writes it."""
    writer = CheckpointWriter(RunFolder(Path(parts.run.spec.run_dir)), keep=3, best=True, layout=parts.run.spec.layout)
    (save,) = (effect for effect in parts.stop(12.0) if isinstance(effect, SaveCheckpoint))
    return writer.write(save).read()


def test_what_was_left_open_is_resolved(start: Start) -> None:
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
def test_the_exchange_is_resolved_before_the_first_frame(start: Start, assignments: tuple[str, ...], kind: str) -> None:
    parts = start(*assignments)
    (welcome,) = sent(parts.handle(10.0, b"x", hello_of("x"), None), Welcome)
    assert parts.run.spec.settings.exchange.kind == welcome.settings["exchange"]["kind"] == kind


def test_the_largest_message_has_room_for_any_codec_s_body(start: Start) -> None:
    parts = start()
    assert parts.max_bytes > 4 * parts.run.spec.parameters
    assert parts.max_bytes < 8 * 2**20


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
def test_weights_above_a_mebibyte_travel_as_halves(start: Start, assignments: tuple[str, ...], expected: str) -> None:
    parts = start(*assignments)
    assert parts.run.spec.weights_format == expected
    size = {"fp32": 4, "fp16": 2}[expected]
    assert len(body_of(parts)) == size * parts.run.spec.parameters


def test_codecs_are_negotiated_by_the_settings(start: Start) -> None:
    parts = start("exchange.codec=int8", "exchange.entropy_coder=lz4")
    (welcome,) = sent(parts.handle(10.0, b"x", hello_of("x"), None), Welcome)
    assert welcome.codec == "int8+lz4"
    assert parts.run.peers.actors == 1
    parts.handle(10.0, b"y", hello_of("y", codecs=["none"]), None)
    assert parts.run.peers.actors == 1


def test_an_actor_on_this_machine_is_on_loopback(start: Start) -> None:
    parts = start()
    here = sent(parts.handle(10.0, b"x", hello_of("x", host=parts.run.spec.host), None), Welcome)
    there = sent(parts.handle(10.0, b"y", hello_of("y", host="elsewhere"), None), Welcome)
    assert (here[0].codec, there[0].codec) == ("none", "int8+lz4")


def test_the_same_seed_gives_the_same_weights_and_training_changes_them(start: Start, tmp_path: Path) -> None:
    parts = start("seed=1")
    begun = weights_of(parts).vector.clone()
    train(parts)
    assert parts.run.stats.counters.version == 3
    assert not torch.equal(weights_of(parts).vector, begun)
    assert torch.equal(weights_of(start("seed=1")).vector, begun)
    assert not torch.equal(weights_of(start("seed=2")).vector, begun)


@pytest.mark.parametrize("kind", ["adam", "rmsprop"])
def test_a_restored_run_goes_on_as_if_it_had_not_stopped(start: Start, kind: str) -> None:
    parts = start(f"optimizer.kind={kind}")
    train(parts)
    restored = start(f"optimizer.kind={kind}", checkpoint=dataclasses.replace(checkpoint_of(parts), score=1.75))
    assert torch.equal(weights_of(restored).vector, weights_of(parts).vector)
    for name, tensor in weights_of(parts).optimizer.state().items():
        assert torch.equal(weights_of(restored).optimizer.state()[name], tensor), name
    assert restored.run.spec.epoch == 2 and restored.run.spec.run == parts.run.spec.run
    counters = restored.run.stats.counters
    assert (counters.version, counters.frames, counters.gradients, counters.episodes) == (3, 60, 3, 3)
    assert (restored.run.stats.window.mean_return, restored.run.stats.score) == (2.0, 1.75)
    assert restored.run.stats.seconds(10.0) == 2.0
    (welcome,) = sent(restored.handle(10.0, b"y", hello_of("y"), None), Welcome)
    assert (welcome.version, welcome.epoch) == (3, 2)
    train(restored, 1)
    assert restored.run.stats.counters.version == 4


def test_running_statistics_go_out_with_the_weights_and_survive(start: Start) -> None:
    normalize = ("network.normalize=true", "environment.reward_normalize=true")
    parts = start(*normalize)
    assert (parts.run.spec.counted, weights_of(parts).extras.tolist()) == (5, [0.0] * 4 + [1.0] * 5)
    before = len(body_of(parts))
    train(parts)
    assert weights_of(parts).moments == (60, [2.0] * 5, [2.0 * 3 + 20.0 * 2] * 5)
    scale = (46 / 60) ** -0.5
    assert weights_of(parts).extras.tolist() == pytest.approx([2.0] * 4 + [scale] * 5)
    body = body_of(parts)
    assert len(body) == before
    assert body[-36:] == weights_of(parts).extras.tobytes()
    restored = start(*normalize, checkpoint=checkpoint_of(parts))
    assert weights_of(restored).moments == weights_of(parts).moments
    assert np.array_equal(weights_of(restored).extras, weights_of(parts).extras)


def test_statistics_that_do_not_fit_are_refused(start: Start) -> None:
    parts = start("network.normalize=true")
    train(parts)
    checkpoint = checkpoint_of(parts)
    checkpoint.state["moments"] = [3, [1.0], [1.0]]
    with pytest.raises(ConfigurationError, match="running statistics do not fit"):
        start("network.normalize=true", checkpoint=checkpoint)


def test_moments_too_large_for_a_header_are_refused_at_the_start(start: Start) -> None:
    with pytest.raises(ConfigurationError, match=r"the moments of 8000 numbers .* has room for 524288; use false"):
        start("network.normalize=true", "environment.frame_stack=2000")


def test_a_restored_optimizer_takes_the_step_the_first_would_have_taken(start: Start) -> None:
    parts = start()
    train(parts)
    restored = start(checkpoint=checkpoint_of(parts))
    gradient = torch.ones(parts.run.spec.parameters)
    for one in (parts, restored):
        weights_of(one).step(gradient, scale=1.0, frames=0)
    assert torch.equal(weights_of(restored).vector, weights_of(parts).vector)


def test_a_checkpoint_of_another_network_is_refused(start: Start) -> None:
    parts = start()
    train(parts)
    checkpoint = checkpoint_of(parts)
    other = Checkpoint(3, None, checkpoint.weights, checkpoint.optimizer, checkpoint.state | {"model": "another"})
    with pytest.raises(ConfigurationError, match="version 3 holds another network"):
        start(checkpoint=other)
    shorter = Checkpoint(3, None, checkpoint.weights[1:], checkpoint.optimizer, checkpoint.state)
    with pytest.raises(ConfigurationError, match="another network"):
        start(checkpoint=shorter)


@pytest.mark.parametrize("counters", [None, {"version": "three"}, {"recent": [[1.0]]}])
def test_a_checkpoint_without_readable_counters_is_refused(start: Start, counters: object) -> None:
    parts = start()
    checkpoint = checkpoint_of(parts)
    broken = Checkpoint(0, None, checkpoint.weights, checkpoint.optimizer, checkpoint.state | {"counters": counters})
    with pytest.raises(ConfigurationError, match="does not fit"):
        start(checkpoint=broken)


def test_an_optimizer_with_other_statistics_is_refused_by_name(start: Start) -> None:
    parts = start("optimizer.kind=sgd")
    checkpoint = checkpoint_of(parts)
    with pytest.raises(ConfigurationError, match="sgd needs the state"):
        start("optimizer.kind=sgd", "optimizer.momentum=0.9", checkpoint=checkpoint)


def test_a_missing_environment_is_named(start: Start) -> None:
    with pytest.raises(EnvironmentMissingError, match="CartPoll-v1"):
        start("environment.id=CartPoll-v1")


COMPENSATE = ("staleness.policy=compensate", "algorithm.refresh=false", "exchange.accumulate=1")


def test_the_exchange_is_made_for_the_staleness_policy(start: Start) -> None:
    optimizer = (
        "optimizer.kind=sgd",
        "optimizer.learning_rate=1.0",
        "exchange.codec=none",
        "algorithm.max_grad_norm=0",
    )
    compensated = start(*optimizer, *COMPENSATE)
    train(compensated)
    assert compensated._exchange._collected.reach == 3  # type: ignore[attr-defined]
    synchronous = start(*optimizer, "staleness.policy=synchronous")
    begun = weights_of(synchronous).vector.clone()
    gradient = torch.ones(synchronous.run.spec.parameters)
    names = [b"a", b"b", b"c"]
    for name in names:
        (welcome,) = sent(synchronous.handle(10.0, name, hello_of(name.decode()), None), Welcome)
    for name in names:
        spec = synchronous.run.spec
        fields = {"model": welcome.model, "codec": welcome.codec, "emulator_frames": 20}
        header = gradient_of(run=spec.run, epoch=spec.epoch, **fields)
        synchronous.handle(11.0, name, header, make_codec(welcome.codec, gradient.numel()).encode(gradient.numpy()))
    assert torch.allclose(weights_of(synchronous).vector, begun - 1.0)


VALUES = ("algorithm.kind=n-step-q", "algorithm.target_frames=50")


def test_the_target_network_survives_a_resume(start: Start) -> None:
    parts = start(*VALUES)
    train(parts, 4)  # the third of 20 frames each renewed it
    assert weights_of(parts).target is not None
    kept = weights_of(parts).target.vector.clone()
    assert not torch.equal(kept, weights_of(parts).vector)
    body = body_of(parts)
    restored = start(*VALUES, checkpoint=checkpoint_of(parts))
    assert weights_of(restored).target is not None
    assert torch.equal(weights_of(restored).target.vector, kept)
    assert weights_of(restored).extras.tolist() == [parts.run.stats.counters.frames]
    assert body_of(restored) == body


@pytest.mark.parametrize("parameters", [0, 1])
def test_a_target_network_of_another_size_is_refused(start: Start, parameters: int) -> None:
    checkpoint = checkpoint_of(start(*VALUES))
    broken = dataclasses.replace(
        checkpoint, optimizer={**checkpoint.optimizer, "target": checkpoint.weights[:parameters]}
    )
    with pytest.raises(ConfigurationError, match=f"does not fit: its target network has {parameters} parameters"):
        start(*VALUES, checkpoint=broken)


def test_a_checkpoint_without_the_target_network_is_refused(start: Start) -> None:
    checkpoint = checkpoint_of(start(*VALUES))
    del checkpoint.optimizer["target"]
    with pytest.raises(ConfigurationError, match="does not fit: its target network has 0 parameters"):
        start(*VALUES, checkpoint=checkpoint)


def test_with_trajectories_the_learner_learns_and_only_the_entropy_stage_is_negotiated(start: Start) -> None:
    parts = start("algorithm.kind=vtrace")
    assert parts.run.spec.settings.exchange.kind == "trajectories"
    here = sent(parts.handle(10.0, b"x", hello_of("x", host=parts.run.spec.host), None), Welcome)
    there = sent(parts.handle(10.0, b"y", hello_of("y", codecs=["none", "none+zstd"]), None), Welcome)
    assert (here[0].codec, there[0].codec) == ("none+lz4", "none+zstd")


def test_trajectories_too_long_for_a_message_are_refused(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner.build, "LARGEST_TRAJECTORY", 2**20)
    with pytest.raises(ConfigurationError, match="a trajectory could be 3 MiB long, at most 1 are taken: lower"):
        start("algorithm.kind=a2c", "environment.num_envs=512", "algorithm.rollout_length=64")


def test_a_learner_that_acts_holds_the_network_and_takes_bodies_of_observations(start: Start) -> None:
    gradients, actions = start(), start("exchange.kind=actions")
    assert actions.run.spec.model == gradients.run.spec.model
    group = 16 + 4 + 1 + 1
    assert actions.max_bytes == actions.run.spec.header_bytes + group
    (welcome,) = sent(actions.handle(10.0, b"x", hello_of("x", codecs=[]), None), Welcome)
    assert (welcome.codec, welcome.model) == ("", actions.run.spec.model)


@pytest.mark.parametrize(
    ("assignment", "occasion"),
    [
        ("exchange.kind=gradients", "broadcast"),
        ("algorithm.kind=ppo", "answer"),
        ("exchange.kind=actions", "never"),
    ],
)
def test_weights_go_out_when_the_actors_need_them(start: Start, assignment: str, occasion: str) -> None:
    assert start(assignment)._exchange.weights_go_out == occasion


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


def test_layers_are_accelerated_where_the_learner_uses_them(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []
    monkeypatch.setattr(TorchModel, "accelerate", lambda model, probe, **how: asked.append((tuple(probe.shape), how)))
    for setting in ("precision='float32'", "precision='bfloat16'", "compile=true"):
        check(settings_of(*SMALL, "exchange.kind='trajectories'", f"optimizer.{setting}"))
    (warning,) = start("optimizer.compile=true", "exchange.kind='gradients'").run.status(11.0).warnings
    assert 'with exchange.kind = "gradients" its actors do' in warning
    wanted = [{"bfloat16": True, "compiled": False}, {"bfloat16": False, "compiled": True}]
    assert asked == [((2, 4), how) for how in wanted]
