from __future__ import annotations

import pytest
import torch

import learner.exchange.make
import learner.parameters.transport
from common.errors import ConfigurationError
from common.settings.sections import MAX_ACTORS
from common.wire.codecs.registry import make as make_codec
from common.wire.messages import Welcome
from tests.helpers.built import StartCore, train, weights_of
from tests.helpers.run import gradient_of, hello_of, sent

COMPENSATE = ("staleness.policy=compensate", "algorithm.refresh=false", "exchange.accumulate=1")


def test_the_exchange_is_made_for_the_staleness_policy(start: StartCore) -> None:
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


def test_the_largest_message_has_room_for_any_codec_s_body(start: StartCore) -> None:
    core = start()
    assert core.max_bytes > 4 * core.run.spec.parameters
    assert core.max_bytes < 8 * 2**20


def test_codecs_are_negotiated_by_the_settings(start: StartCore) -> None:
    core = start("exchange.codec=int8", "exchange.entropy_coder=lz4")
    (welcome,) = sent(core.handle(10.0, b"x", hello_of("x"), None), Welcome)
    assert welcome.codec == "int8+lz4"
    assert core.run.peers.actors == 1
    core.handle(10.0, b"y", hello_of("y", codecs=["none"]), None)
    assert core.run.peers.actors == 1


def test_an_actor_on_this_machine_is_on_loopback(start: StartCore) -> None:
    core = start()
    here = sent(core.handle(10.0, b"x", hello_of("x", host=core.run.spec.host), None), Welcome)
    there = sent(core.handle(10.0, b"y", hello_of("y", host="elsewhere"), None), Welcome)
    assert (here[0].codec, there[0].codec) == ("none", "int8+lz4")


def test_with_trajectories_the_learner_learns_and_only_the_entropy_stage_is_negotiated(start: StartCore) -> None:
    core = start("algorithm.kind=vtrace")
    assert core.run.spec.settings.exchange.kind == "trajectories"
    here = sent(core.handle(10.0, b"x", hello_of("x", host=core.run.spec.host), None), Welcome)
    there = sent(core.handle(10.0, b"y", hello_of("y", codecs=["none", "none+zstd"]), None), Welcome)
    assert (here[0].codec, there[0].codec) == ("none+lz4", "none+zstd")


@pytest.mark.parametrize(
    ("assignments", "limited"),
    [
        ("algorithm.kind=vtrace", False),
        ("algorithm.kind=vtrace exchange.kind=actions", True),
        ("algorithm.kind=ppo", True),
        ("staleness.policy=synchronous", False),
    ],
)
def test_there_is_room_for_as_many_actors_as_there_is_memory_for_what_they_make_wait(
    start: StartCore, monkeypatch: pytest.MonkeyPatch, assignments: str, limited: bool
) -> None:
    monkeypatch.setattr(learner.parameters.transport, "available_bytes", lambda: 10**6)
    small = "environment.num_envs=16", "algorithm.rollout_length=10"
    core = start(*small, "scaling.policy=episode-duration", "scaling.maximum=12", *assignments.split())
    # 16 environments, 11 observations of 4 floats and 64 bytes, 3 copies, in half of the memory
    fit = 500_000 // (3 * 16 * 11 * (16 + 64)) if limited else MAX_ACTORS
    assert core._exchange.most_actors == fit
    said = f"the free memory holds the rollouts of {fit} actors, and the run may have 12"
    assert any(said in text for text in core.run.stats.warnings) == limited


def test_the_least_number_of_actors_always_has_room(start: StartCore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner.parameters.transport, "available_bytes", lambda: 0)
    assert start("algorithm.kind=ppo", "scaling.minimum=3", "scaling.maximum=3")._exchange.most_actors == 3


def test_trajectories_too_long_for_a_message_are_refused(start: StartCore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner.exchange.make, "LARGEST_TRAJECTORY", 2**20)
    with pytest.raises(ConfigurationError, match="a trajectory could be 3 MiB long, at most 1 are taken: lower"):
        start("algorithm.kind=vtrace", "environment.num_envs=512", "algorithm.rollout_length=64")


def test_a_learner_that_acts_holds_the_network_and_takes_bodies_of_observations(start: StartCore) -> None:
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
def test_weights_go_out_when_the_actors_need_them(start: StartCore, assignment: str, occasion: str) -> None:
    assert start(assignment)._exchange.weights_go_out == occasion
