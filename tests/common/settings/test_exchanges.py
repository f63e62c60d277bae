from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from common.settings.exchanges import (
    EXCHANGES,
    MOST_SUMMED,
    momentum,
    most_accumulated,
    most_in_sum,
    possible,
    resolve,
    staleness_policy,
    wanted_device,
    why_no_relay,
)
from common.settings.sections import Algorithm, Exchange, Network, Optimizer, Settings, Staleness

NETWORKS = ("dense", "conv-a3c", "conv-impala", "my.networks:Small")
DEVICES = ("cpu", "cuda", "cuda:1")


@pytest.mark.parametrize(("algorithm", "network", "device"), list(product(EXCHANGES, NETWORKS, DEVICES)))
def test_auto(algorithm: Any, network: str, device: str) -> None:
    found = resolve(Settings(algorithm=Algorithm(kind=algorithm)), network, device)
    assert found in EXCHANGES[algorithm]
    if algorithm == "a3c":
        assert found == ("trajectories" if device != "cpu" and network != "dense" else "gradients")
    else:
        assert found == EXCHANGES[algorithm][0]


@pytest.mark.parametrize(
    ("algorithm", "network", "device", "expected"),
    [
        ("a3c", "dense", "auto", "cpu"),
        ("one-step-q", "dense", "auto", "cpu"),
        ("ppo", "dense", "auto", "auto"),
        ("a3c", "conv-a3c", "auto", "auto"),
        ("a3c", "dense", "cuda", "cuda"),
        ("a3c", "dense", "cuda:0,cuda:1", "cuda:0,cuda:1"),
    ],
)
def test_small_gradients_of_actors_need_no_gpu(algorithm: Any, network: str, device: str, expected: str) -> None:
    settings = Settings(
        algorithm=Algorithm(kind=algorithm), network=Network(kind=network), optimizer=Optimizer(device=device)
    )
    assert wanted_device(settings) == expected


@pytest.mark.parametrize("kind", ["gradients", "trajectories", "actions"])
def test_a_given_kind_stays(kind: Any) -> None:
    assert resolve(Settings(exchange=Exchange(kind=kind)), "conv-nature", "cuda") == kind


@pytest.mark.parametrize(
    "asking",
    [
        {"exchange": Exchange(codec="int8")},
        {"exchange": Exchange(error_feedback=True)},
        {"exchange": Exchange(robust="agreement")},
        {"algorithm": Algorithm(whole_episodes=True)},
        {"staleness": Staleness(policy="compensate")},
    ],
)
def test_auto_stays_with_gradients_where_the_settings_ask_for_what_only_these_have(asking: Any) -> None:
    assert resolve(Settings(**asking), "conv-a3c", "cuda") == "gradients"


@pytest.mark.parametrize(
    ("network", "device", "kinds"),
    [
        ("auto", "auto", {"gradients", "trajectories"}),
        ("auto", "cpu", {"gradients"}),
        ("dense", "auto", {"gradients"}),
        ("conv-nature", "cuda:0", {"trajectories"}),
    ],
)
def test_what_auto_may_become(network: str, device: str, kinds: set[str]) -> None:
    settings = Settings(network=Network(kind=network), optimizer=Optimizer(device=device))
    assert possible(settings) == kinds


@pytest.mark.parametrize("algorithm", EXCHANGES)
def test_the_learner_waits_for_all_where_a_batch_is_of_one_policy(algorithm: Any) -> None:
    chosen = Settings(algorithm=Algorithm(kind=algorithm))
    assert staleness_policy(chosen) == ("synchronous" if algorithm in ("a2c", "ppo") else "scale")
    assert (
        staleness_policy(Settings(algorithm=Algorithm(kind=algorithm), staleness=Staleness(policy="scale"))) == "scale"
    )


def test_nothing_is_accumulated_where_each_step_waits_for_its_answers() -> None:
    assert most_accumulated(Settings()) == Settings().exchange.accumulate
    assert most_accumulated(Settings(staleness=Staleness(policy="synchronous"))) == 0
    assert most_accumulated(Settings(algorithm=Algorithm(kind="ppo"))) == 0


@pytest.mark.parametrize(
    ("settings", "kind", "beta1"),
    [
        (Settings(), "gradients", 0.0),
        (Settings(), "trajectories", 0.9),
        (Settings(algorithm=Algorithm(kind="ppo")), "gradients", 0.9),
        (Settings(staleness=Staleness(policy="synchronous")), "gradients", 0.9),
        (Settings(optimizer=Optimizer(beta1=0.5)), "gradients", 0.5),
    ],
)
def test_there_is_no_momentum_where_gradients_are_applied_as_they_come(
    settings: Settings, kind: str, beta1: float
) -> None:
    assert momentum(settings, kind) == beta1


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (Settings(exchange=Exchange(kind="gradients")), ""),
        (Settings(exchange=Exchange(kind="trajectories")), 'exchange.kind = "trajectories"'),
        (Settings(exchange=Exchange(kind="actions")), 'exchange.kind = "actions"'),
        (Settings(exchange=Exchange(kind="gradients", credit=0)), "exchange.credit = 0"),
        (Settings(exchange=Exchange(kind="gradients"), algorithm=Algorithm(kind="ppo")), "waits for its actors"),
        (Settings(exchange=Exchange(kind="gradients"), reproducible=True), "waits for its actors"),
    ],
)
def test_a_relay_is_for_gradients_that_nobody_waits_for(settings: Settings, why: str) -> None:
    assert why in why_no_relay(settings) and bool(why) == bool(why_no_relay(settings))


def test_a_sum_has_room_for_the_longest_gradient() -> None:
    assert [most_in_sum(Settings(exchange=Exchange(accumulate=count))) for count in (4, 40)] == [MOST_SUMMED, 40]
