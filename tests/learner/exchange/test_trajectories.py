from __future__ import annotations

import msgspec
import pytest

from common.wire.messages import Acknowledgement, Trajectory
from tests.helpers.run import BAD, NotedSum, exchange_of, gradient_of, hello_of, run_of, sent, settings_of


@pytest.mark.parametrize(("host", "codec"), [("gpu-box", "none+lz4"), ("elsewhere", "none+zstd")])
def test_only_the_entropy_stage_is_chosen(host: str, codec: str) -> None:
    exchange = exchange_of(run_of(settings_of("exchange.kind=trajectories", "exchange.link_mbit=10")), NotedSum())
    assert exchange.choose_codec(hello_of(host=host)) == codec


def test_rollouts_are_unpacked_and_added_and_gradients_are_refused() -> None:
    run, noted = run_of(settings_of("exchange.kind=trajectories")), NotedSum()
    noted.learnt = {"entropy": 0.25, "another": 1.0}
    exchange = exchange_of(run, noted)
    peer, _ = run.peers.join(b"x", hello_of(), 0.0)
    peer.codec = "none"
    fields = msgspec.structs.asdict(gradient_of())
    for name in ("statistics", "summed", "players"):
        del fields[name]
    assert exchange.handle(0.0, b"x", peer, Trajectory(**fields), b"rollout") == []
    (applied,) = sent(exchange.step(0.0), Acknowledgement)
    assert (applied.verdict, applied.version) == ("applied", 1)
    assert [added for added, *_ in noted.steps] == [[(b"rollout", "", 1.0)]]
    assert run.stats.figures(1.0)["losses"] == {"entropy": 0.25}
    for sequence, (message, body, why) in enumerate(
        [(gradient_of(2), b"gradient", "this run takes trajectories"), (Trajectory(**fields), BAD, "not finite")], 2
    ):
        again = msgspec.structs.replace(message, sequence=sequence, version=1)
        (refused,) = sent(exchange.handle(0.0, b"x", peer, again, body), Acknowledgement)
        assert (refused.verdict, refused.why[:10]) == ("refused", why[:10])


def test_what_is_wrong_with_the_device_is_told() -> None:
    noted = NotedSum()
    exchange = exchange_of(run_of(settings_of("exchange.kind=trajectories")), noted)
    assert exchange.named() == []
    noted.troubles = ["too little memory"]
    assert exchange.named() == ["too little memory"]
