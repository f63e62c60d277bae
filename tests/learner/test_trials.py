"""When it is decided, and on what."""

from __future__ import annotations

import math
from collections.abc import Collection

import pytest

import learner.trials
from common.errors import RefusedError
from common.settings.codec_names import NAMES
from learner.choice import Choice, Conditions, Costs
from learner.peers import Peers
from learner.trials import PATIENCE_SECONDS, Trials
from tests.helpers.run import hello_of, settings_of
from tests.learner.test_choice import LARGE, SMALL, SMALL_COSTS


class Store:
    def costs(self) -> Costs:
        return SMALL_COSTS

    def change_over(self) -> None:
        raise NotImplementedError


def choose_codec(offered: Collection[str], loopback: bool) -> str:
    if "none+lz4" not in offered:
        raise RefusedError("no common codec")
    return "none" if loopback else "none+lz4"


def trials_of(*assignments: str) -> Trials:
    return Trials(Store(), "gpu-box", choose_codec, settings_of(*assignments))


def peers_of(**hosts: str) -> Peers:
    peers = Peers()
    for name, host in hosts.items():
        peers.join(name.encode(), hello_of(name, host=host), 0.0, "")
    return peers


def test_an_actor_is_asked_with_the_codec_its_trajectories_would_have() -> None:
    trials = trials_of()
    assert trials.codec(hello_of(codecs=list(NAMES))) == "none+lz4"
    assert trials.codec(hello_of(host="gpu-box")) == "none"
    assert trials.codec(hello_of(codecs=["none"])) == ""


def test_it_waits_for_all_that_are_there_but_not_for_ever() -> None:
    trials, peers = trials_of(), peers_of(a="lab", b="lab")
    a, b = (peer for _, peer in peers.role("actor"))
    assert trials.decide(1e9, peers) is None
    assert trials.deadline == math.inf
    trials.told(10.0, a, SMALL)
    assert trials.deadline == 10.0 + PATIENCE_SECONDS
    assert trials.decide(10.0, peers) is None
    assert trials.decide(trials.deadline, peers) is not None
    trials.told(11.0, b, SMALL)
    assert trials.deadline == 10.0 + PATIENCE_SECONDS
    assert trials.decide(11.0, peers) is not None


def test_of_each_actor_the_first_figures_count(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[object, Costs, Conditions]] = []

    def choose(told: object, costs: Costs, given: Conditions) -> Choice:
        seen.append((told, costs, given))
        return Choice("gradients", "")

    monkeypatch.setattr(learner.trials, "choose", choose)
    trials = trials_of("scaling.maximum=8", "scaling.policy=load", "exchange.link_mbit=50.0", "scaling.busy_limit=0.5")
    peers = peers_of(a="gpu-box", b="lab")
    a, b = (peer for _, peer in peers.role("actor"))
    for peer, trial in ((a, SMALL), (a, LARGE), (b, SMALL)):
        trials.told(10.0, peer, trial)
    assert trials.decide(10.0, peers) is not None
    ((told, costs, given),) = seen
    assert told == [SMALL, SMALL]
    assert costs == SMALL_COSTS
    assert (given.actors, given.here, given.link_mbit, given.busy_limit) == (8, 0.5, 50.0, 0.5)
    assert given.processors >= 1


@pytest.mark.parametrize(("assignments", "expected"), [(("scaling.minimum=2",), 3), (("scaling.minimum=6",), 6)])
def test_as_many_actors_as_are_there_or_will_be(
    assignments: tuple[str, ...], expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learner.trials, "choose", lambda told, costs, given: Choice("gradients", str(given.actors)))
    trials, peers = trials_of(*assignments), peers_of(a="lab", b="lab", c="lab")
    for _, peer in peers.role("actor"):
        trials.told(0.0, peer, SMALL)
    assert trials.decide(0.0, peers) == Choice("gradients", str(expected))
