from __future__ import annotations

from itertools import product

import pytest

from common.settings.exchanges import EXCHANGES, most_accumulated, possible, resolve
from common.settings.sections import Settings, Staleness

NETWORKS = ("dense", "conv-a3c", "conv-impala", "my.networks:Small")
DEVICES = ("cpu", "cuda", "cuda:1")


@pytest.mark.parametrize(("algorithm", "network", "device"), list(product(EXCHANGES, NETWORKS, DEVICES)))
def test_auto(algorithm: str, network: str, device: str) -> None:
    found = resolve("auto", algorithm, network, device)
    assert found in EXCHANGES[algorithm]
    if algorithm == "a3c":
        assert found == ("trajectories" if device != "cpu" and network != "dense" else "gradients")
    else:
        assert found == EXCHANGES[algorithm][0]


@pytest.mark.parametrize("kind", ["gradients", "trajectories", "actions"])
def test_a_given_kind_stays(kind: str) -> None:
    assert resolve(kind, "a3c", "conv-nature", "cuda") == kind


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
    assert possible("auto", "a3c", network, device) == kinds


def test_nothing_is_accumulated_where_each_step_waits_for_its_answers() -> None:
    assert most_accumulated(Settings()) == Settings().exchange.accumulate
    assert most_accumulated(Settings(staleness=Staleness(policy="synchronous"))) == 0
