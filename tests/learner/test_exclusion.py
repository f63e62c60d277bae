from __future__ import annotations

from common.wire.messages import Refused
from learner.effects import Disconnect
from learner.exclusion import exclude
from learner.quarantine import FIRST_SECONDS
from tests.helpers.run import hello_of, logged, run_of, sent, settings_of


def test_an_excluded_peer_is_told_why_named_and_gone() -> None:
    run = run_of(settings_of())
    peer, _ = run.peers.join(b"x", hello_of("x"), 0.0, place="address 10.0.0.7")
    effects = exclude(run.peers, run.stats.warn, 1.0, b"x", peer, "it lies")
    (refusal,) = sent(effects, Refused, b"x")
    assert (refusal.code, refusal.reason) == ("quarantined", "it lies")
    assert Disconnect(b"x", 0.0) in effects
    assert logged(effects) == [f"error: x is quarantined for {FIRST_SECONDS:.0f} s: it lies"]
    assert run.peers.get(b"x") is None
    assert run.status(1.0).warnings == [f"x is quarantined for {FIRST_SECONDS:.0f} s: it lies"]
    assert [one.name for one in run.status(1.0).quarantined] == ["x"]


def test_three_of_a_place_ban_it() -> None:
    run = run_of(settings_of())
    for name in ("x", "y", "z"):
        peer, _ = run.peers.join(name.encode(), hello_of(name), 0.0, place="address 10.0.0.7")
        effects = exclude(run.peers, run.stats.warn, 1.0, name.encode(), peer, "it lies")
    (disconnect,) = [effect for effect in effects if isinstance(effect, Disconnect)]
    assert disconnect.ban_seconds > 0.0
