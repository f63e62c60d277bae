from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from common.errors import AgainstOthersError, RefusedError
from common.settings.sections import Optimizer
from common.wire.codecs.registry import make as make_codec
from common.wire.messages import Acknowledgement, Observe, Refused
from learner.exchange.base import Exchange
from learner.parameters.agreement import Agreement
from learner.parameters.gradient_sum import GradientSum
from learner.parameters.optimizers import make as make_optimizer
from learner.parameters.weights import Weights
from tests.helpers.run import (
    CODEC,
    NotedSum,
    core_of,
    exchange_of,
    gradient_of,
    hello_of,
    logged,
    run_of,
    sent,
    settings_of,
)

BODY = b"gradient"


def exchange(*assignments: str) -> Exchange:
    return exchange_of(run_of(settings_of(*assignments)), NotedSum())


@pytest.mark.parametrize(
    ("assignments", "host", "codec"),
    [
        ((), "gpu-box", "none"),
        ((), "elsewhere", "int8+lz4"),
        (("exchange.link_mbit=10",), "elsewhere", "int8+zstd"),
        (("exchange.codec=fp16", "exchange.entropy_coder=none"), "elsewhere", "fp16"),
    ],
)
def test_the_codec_is_chosen_by_the_settings_and_the_link(assignments: tuple[str, ...], host: str, codec: str) -> None:
    assert exchange(*assignments).choose_codec(hello_of(host=host)) == codec


def test_without_a_common_codec_an_actor_is_refused() -> None:
    with pytest.raises(RefusedError, match="no common codec"):
        exchange().choose_codec(hello_of(codecs=["morse"]))


def test_the_largest_body_is_that_of_any_codec() -> None:
    assert exchange().max_bytes >= 4 * 2


def test_the_lag_goes_with_the_gradient_and_what_the_sum_cannot_compensate_is_stale() -> None:
    run = run_of(settings_of("staleness.policy=compensate", "algorithm.refresh=false", "exchange.accumulate=1"))
    run.stats.counters.version = 9
    noted = NotedSum(9)
    noted.largest_lag = 2
    one = exchange_of(run, noted)
    peer, _ = run.peers.join(b"x", hello_of(), 0.0)
    peer.codec = CODEC
    assert one.handle(1.0, b"x", peer, gradient_of(1, 7), BODY) == []
    one.step(1.0)
    assert noted.lags == [2] and noted.steps[0][1] == 1.0
    (answer,) = sent(one.handle(1.0, b"x", peer, gradient_of(2, 7), BODY), Acknowledgement)
    assert (answer.verdict, answer.why) == ("stale", "3 versions old, at most 2 are taken")


def test_observations_are_refused() -> None:
    run = run_of(settings_of())
    peer, _ = run.peers.join(b"x", hello_of(), 0.0)
    message = Observe(run="a-run", epoch=1, group=0, step=1)
    (refused,) = sent(exchange_of(run, NotedSum()).handle(0.0, b"x", peer, message, b"o"), Refused)
    assert refused.code == "role"


def test_an_actor_that_points_against_the_others_is_refused_named_and_stays_in_the_run() -> None:
    """Real gradients through the real sum: nine honest ones of a direction and noise, and one of flipped sign."""
    size, generator = 200, torch.Generator().manual_seed(0)
    weights = Weights(make_optimizer(Optimizer(kind="sgd"), torch.zeros(size), 0), np.zeros(0, np.float32))
    run = run_of(settings_of("exchange.robust=agreement"))
    core = core_of(run, GradientSum(weights, agreement=Agreement(size)), 0.0)
    names = [f"honest-{number}" for number in range(9)] + ["flipper"]
    for name in names:
        core.handle(0.0, name.encode(), hello_of(name, host="gpu-box"), None)
    direction = torch.ones(size) / size**0.5
    lines: list[str] = []
    for number in range(1, 121):
        for name in names:
            noise = torch.randn(size, generator=generator) / size**0.5
            gradient = (direction + 2 * noise) * (-1.0 if name == "flipper" else 1.0)
            header = gradient_of(number, run.stats.counters.version)
            body = make_codec("none", size).encode(gradient.numpy())
            effects = core.handle(0.1 * number, name.encode(), header, body)
        lines += logged(core.tick(0.1 * number))
    assert sent(effects, Acknowledgement, b"flipper")[0].verdict == "refused"
    status = core.run.status(13.0)
    assert len(status.actors) == 10, "it is judged on, and may come back"
    assert [line.split(":")[0] for line in status.health] == ["flipper"]
    assert "point against the others'" in status.health[0]
    assert len([line for line in lines if "point against" in line]) == 1
    assert {peer.name for peer in status.actors if peer.refused} == {"flipper"}
    assert weights.vector.dot(direction) < -1


def test_where_all_are_waited_for_who_is_left_out_has_sent_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its gradients would never be part of the step, and each step would wait for staleness.wait_seconds."""

    def judged(gradient_sum: NotedSum, body: bytes, codec: str, *, source: str, **given: Any) -> None:
        if source == "flipper":
            raise AgainstOthersError("flipper's gradients point against the others'")
        add(gradient_sum, body, codec, source=source, **given)

    add = NotedSum.add
    monkeypatch.setattr(NotedSum, "add", judged)
    run, noted = run_of(settings_of("exchange.robust=agreement", "staleness.policy=synchronous")), NotedSum()
    one = exchange_of(run, noted)
    for name in ("a", "flipper", "b"):
        run.peers.join(name.encode(), hello_of(name), 0.0)[0].codec = CODEC
    for version in range(2):
        for name in ("flipper", "a", "b"):
            assert not one.is_ready and not one.step(1.0)
            peer = run.peers.get(name.encode())
            assert peer is not None
            one.handle(1.0, name.encode(), peer, gradient_of(version + 1, version), BODY)
        assert one.is_ready
        assert len(sent(one.step(1.0), Acknowledgement)) == 2
    assert [len(added) for added, _, _ in noted.steps] == [2, 2]
