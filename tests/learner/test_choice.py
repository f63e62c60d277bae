"""Gradients or trajectories, on figures as runs have them."""

from __future__ import annotations

import dataclasses
import re

import pytest

from common.wire.messages import Trial
from learner.choice import MARGIN, Choice, Conditions, Costs, choose

# CartPole-v1 with its preset, on an idle machine of many processors.
SMALL = Trial(
    play=6e-3,
    play_cpu=6e-3,
    gradient=1.2e-3,
    gradient_packing=6e-5,
    trajectory_packing=1.2e-4,
    gradient_bytes=4_108,
    trajectory_bytes=5_745,
    round_trip=8e-3,
    latency=8e-3,
)
SMALL_COSTS = Costs(add=1.5e-4, learn=2.5e-3, step=2e-4)
HERE = Conditions(actors=2, here=1.0, processors=16, link_mbit=0.0, accumulate=4, credit=1, coalesce=16, busy_limit=0.8)
# Pictures and a network of four million parameters.
LARGE = Trial(
    play=0.05,
    play_cpu=0.05,
    gradient=0.9,
    gradient_packing=0.04,
    trajectory_packing=0.01,
    gradient_bytes=4_000_000,
    trajectory_bytes=40_000,
    round_trip=0.1,
    latency=1e-3,
)
ON_GPU, ON_CPU = Costs(add=8e-3, learn=6e-3, step=1e-3), Costs(add=8e-3, learn=0.9, step=8e-3)
AWAY = dataclasses.replace(HERE, actors=16, here=0.0)


def test_a_small_network_on_this_machine_stays_with_gradients_and_says_why() -> None:
    assert choose([SMALL], SMALL_COSTS, HERE) == Choice(
        "gradients",
        "275 rollouts/s (by the actors) as gradients, 296 rollouts/s (by the learner) as trajectories; an actor plays "
        "6 ms, computes 1.2 ms, packs 0.06 ms or 0.12 ms to 4,108 or 5,745 bytes; the learner adds 0.15 ms, computes "
        "2.5 ms, steps 0.2 ms; round trip 8 ms, 2 actors",
    )


def test_two_processors_have_the_same_work_either_way() -> None:
    choice = choose([SMALL], SMALL_COSTS, dataclasses.replace(HERE, processors=2))
    assert choice.kind == "gradients"
    assert "227 rollouts/s (by the processors) as trajectories" in choice.why


def test_a_learner_with_a_gpu_takes_the_gradients_of_a_large_network_off_the_actors() -> None:
    choice = choose([LARGE], ON_GPU, AWAY)
    assert choice.kind == "trajectories"
    assert "(by the learner) as trajectories" in choice.why
    assert choose([LARGE], ON_CPU, AWAY).kind == "gradients"


def test_on_a_slow_link_bytes_decide() -> None:
    cheap = Trial(**{**{name: getattr(LARGE, name) for name in LARGE.__struct_fields__}, "gradient": 1e-3})
    slow = dataclasses.replace(AWAY, link_mbit=20.0)
    choice = choose([cheap], ON_GPU, slow)
    assert choice.kind == "trajectories"
    assert "2.5 rollouts/s (by the link) as gradients" in choice.why  # 4 of them in 4 MB, 20 Mbit/s for all
    other = Trial(**{**{name: getattr(cheap, name) for name in cheap.__struct_fields__}, "trajectory_bytes": 4_000_000})
    assert choose([other], ON_GPU, slow).kind == "gradients", "each of them travels, where gradients are added up"


def test_a_link_of_unknown_speed_is_judged_by_the_round_trip() -> None:
    fields = {name: getattr(LARGE, name) for name in LARGE.__struct_fields__} | {"gradient": 1e-3}
    assert choose([Trial(**fields | {"round_trip": 20.0})], ON_GPU, AWAY).kind == "trajectories"
    assert "(by the link)" in choose([Trial(**fields | {"round_trip": 20.0})], ON_GPU, AWAY).why
    assert "(by the link)" not in choose([Trial(**fields)], ON_GPU, AWAY).why


@pytest.mark.parametrize(("times", "kind"), [(MARGIN - 0.01, "gradients"), (MARGIN + 0.01, "trajectories")])
def test_trajectories_must_win_by_the_margin(times: float, kind: str) -> None:
    """The actors bound both ways: the gradient is what they are spared."""
    trial = Trial(
        play=1.0,
        play_cpu=1.0,
        gradient=times - 1.0,
        gradient_packing=0.0,
        trajectory_packing=0.0,
        gradient_bytes=1,
        trajectory_bytes=1,
    )
    assert choose([trial], Costs(add=0.0, learn=0.1, step=0.0), HERE).kind == kind


def test_one_actor_among_several_cannot_sway_it() -> None:
    liar = Trial(
        play=0.0,
        play_cpu=0.0,
        gradient=1e6,
        gradient_packing=1e6,
        trajectory_packing=0.0,
        gradient_bytes=2**40,
        trajectory_bytes=0,
    )
    assert choose([SMALL, liar, SMALL], SMALL_COSTS, HERE) == choose([SMALL], SMALL_COSTS, HERE)


@pytest.mark.parametrize("figure", [0.0, 1e6])
def test_figures_at_their_bounds_do_no_harm(figure: float) -> None:
    names = ("play", "play_cpu", "gradient", "gradient_packing", "trajectory_packing", "round_trip", "latency")
    for size in (0, 2**40):
        trial = Trial(**dict.fromkeys(names, figure), gradient_bytes=size, trajectory_bytes=size)  # type: ignore[arg-type]
        for link in (0.0, 1.0):
            given = dataclasses.replace(AWAY, link_mbit=link)
            why = choose([trial], Costs(0.0, 0.0, 0.0), given).why
            assert not re.search("nan|inf", why)
