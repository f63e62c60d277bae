from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from common.settings.sections import MAX_ACTORS
from common.wire.frames import pack, unpack
from common.wire.messages import MAX_ACTORS_NAMED, MAX_NAME, Refused, Stop, Welcome
from learner.effects import Disconnect, Effect, Send
from learner.run import HEADER_BYTES
from relay.site import NAMED_BYTES, Site
from relay.weights import KeptWeights
from tests.helpers.run import hello_of, logged, sent, settings_of, spec_of, welcome_of

PORT, ADDRESS = 7001, "10.0.0.9"


def site_of(*assignments: str, seed: int = 7, **changed: Any) -> Site:
    """In an epoch, with weights."""
    site = Site(hello_of("site", "relay", host="lab-0"), "tcp://gpu-box:5555", PORT)
    settings = settings_of("exchange.kind=gradients", *assignments)
    weights = KeptWeights(1, 100.0)
    weights.load(3, b"body", delta=False)
    fields = {"settings": msgspec.to_builtins(settings), "parameters": 10, "counted": 2, "longest_episode": 9}
    welcome = welcome_of(seed=seed, codec="int8", **{**fields, **changed})
    site.begin(replace(spec_of(settings), parameters=10), welcome, weights)
    return site


def ask(
    site: Site, name: str = "a", *, at: bytes = b"", key: str = "", address: str = ADDRESS, **changed: Any
) -> list[Effect]:
    hello = hello_of(name, **changed)
    return site.hello(0.0, at or name.encode(), hello, key, address) + site.admit(0.0, lambda: 42)


def welcomed(site: Site, name: str = "a", **changed: Any) -> Welcome:
    (welcome,) = sent(ask(site, name, **changed), Welcome)
    return welcome


def test_an_actor_gets_the_learner_s_welcome_with_what_is_its_own() -> None:
    welcome = welcomed(site_of("exchange.accumulate=3"))
    assert (welcome.run, welcome.epoch, welcome.model, welcome.credit) == ("a-run", 1, "0123456789abcdef", 1)
    assert (welcome.version, welcome.actors, welcome.weights_port) == (3, 42, PORT)
    assert welcome.relay == "site-1"
    assert (welcome.parameters, welcome.counted, welcome.longest_episode) == (0, 0, 0), "only a relay needs them"
    assert welcome.settings["exchange"]["accumulate"] == 3


@pytest.mark.parametrize(("host", "codec"), [("lab-0", "none"), ("elsewhere", "int8+lz4")])
def test_the_codec_is_chosen_for_the_link_to_the_relay(host: str, codec: str) -> None:
    assert welcomed(site_of(), host=host).codec == codec


def test_no_two_actors_of_any_relays_have_one_seed_and_neither_has_one_that_is_started_again() -> None:
    sites = [site_of(seed=seed) for seed in (7, 8)]
    seeds = [welcomed(site, f"a{number}").seed for site in sites for number in range(50)]
    seeds += [welcomed(site, "a0", incarnation="again").seed for site in sites]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert seeds[0] == welcomed(site_of(seed=7), "a0").seed


@pytest.mark.parametrize("role", ["launcher", "observer", "evaluator", "operator", "relay"])
def test_all_but_actors_are_sent_to_the_learner(role: Any) -> None:
    (refused,) = sent(ask(site_of(), role=role), Refused)
    assert refused.code == "role"
    assert refused.reason == f"this is a relay, for actors alone: {role}s go to the learner at tcp://gpu-box:5555"


def test_with_keys_a_name_is_that_of_the_key_and_the_role_is_in_the_list() -> None:
    site = site_of()
    site.peers.key_roles = {"lab": ("actor",), "watcher": ("observer",)}
    assert sent(ask(site, "lab/0", key="lab"), Welcome)
    assert [one.code for one in sent(ask(site, "other", key="lab"), Refused)] == ["name"]
    (refused,) = sent(ask(site, "watcher", key="watcher"), Refused)
    assert refused.code == "role" and "the relay's list says so" in refused.reason
    (refused,) = sent(ask(site, "gone/0", key="gone"), Refused)
    assert refused.code == "role" and "may be nothing any more" in refused.reason, "it is being revoked"


def test_no_address_takes_all_of_the_room() -> None:
    site = site_of()
    site._room._most_actors = 3
    for name in ("a", "b", "c"):
        assert sent(ask(site, name), Welcome)
    assert [one.code for one in sent(ask(site, "d"), Refused)] == ["role"]
    effects = ask(site, "e", address="10.0.0.10")
    assert sent(effects, Welcome, b"e") and [one.code for one in sent(effects, Refused, b"c")] == ["role"]
    assert sent(ask(site, "a"), Welcome) and site.peers.actors == 3


def test_who_is_quarantined_waits_and_no_common_codec_is_told() -> None:
    site = site_of()
    site.peers.quarantine.add(0.0, f"address {ADDRESS}", "a", "it lied")
    assert [one.code for one in sent(ask(site, "a"), Refused)] == ["quarantined"]
    effects = ask(site, "b", codecs=[])
    assert [one.code for one in sent(effects, Refused)] == ["codec"] and "b: no common codec" in logged(effects)[0]
    assert site.peers.actors == 0


def test_before_there_is_something_to_play_for_nobody_is_answered_and_then_all_are() -> None:
    site = site_of()
    for name in ("a", "b", "a"):
        assert site.hello(0.0, name.encode(), hello_of(name), "", ADDRESS) == []
    assert len(sent(site.admit(1.0, lambda: 2), Welcome)) == 2
    assert site.admit(1.0, lambda: 2) == []


def test_one_that_asks_again_keeps_its_place_and_pulls_and_a_successor_takes_it() -> None:
    site = site_of()
    first = welcomed(site)
    again = ask(site)
    assert sent(again, Welcome) == [first] and logged(again) == []
    moved = ask(site, at=b"anew")
    assert [effect.peer for effect in moved if isinstance(effect, Disconnect)] == [b"a"]
    assert [effect.body for effect in moved if hasattr(effect, "body")] == [None], "its weights are under way"
    effects = ask(site, at=b"next", incarnation="started again")
    assert "actor a was started again: the one before is removed" in logged(effects)[0]
    assert site.peers.everyone() == [b"next"]


def test_a_new_epoch_sends_everybody_to_join_anew() -> None:
    site = site_of()
    ask(site, "a")
    ask(site, "b")
    settings = settings_of("exchange.kind=gradients")
    effects = site.begin(spec_of(settings, epoch=2), welcome_of(epoch=2), KeptWeights(2, 100.0))
    assert [(stop.final, stop.reason) for stop in sent(effects, Stop)] == [(False, "the learner has started again")] * 2
    assert site.peers.actors == 0


def test_at_the_end_everybody_is_told_and_waited_for() -> None:
    site = site_of()
    ask(site)
    assert sent(site.end("reached", final=True), Stop) == [Stop(reason="reached", final=True)]
    assert site.peers.actors == 1
    assert logged(site.leave([b"a"], "info", "left: reached")) == ["info: actor a left: reached"]
    assert site.leave([b"a"], "info", "left") == []


def test_keys_that_are_revoked_cut_their_actors_off() -> None:
    site = site_of()
    site.peers.key_roles = {"lab": ("actor",)}
    ask(site, "lab/0", key="lab")
    ask(site, "b")
    assert logged(site.revoke({"lab"})) == ["warning: actor lab/0 was cut off: its key is not allowed any more"]
    assert site.peers.everyone() == [b"b"]


def test_whoever_leaves_or_is_revoked_before_it_is_admitted_does_not_join() -> None:
    site = site_of()
    site.peers.key_roles = {"lab": ("actor",)}
    for name, key in (("lab/0", "lab"), ("a", ""), ("b", "")):
        assert site.hello(0.0, name.encode(), hello_of(name), key, ADDRESS) == []
    assert logged([*site.revoke({"lab"}), *site.leave([b"a"], "info", "left")]) == [], "nobody had joined"
    assert [effect.peer for effect in site.admit(0.0, lambda: 1) if isinstance(effect, Send)] == [b"b"]
    assert site.peers.everyone() == [b"b"]


def test_the_report_names_those_who_joined_first_and_fits_into_a_header() -> None:
    site = site_of()
    ask(site, "first", launcher="l")
    site.peers.role("actor")[0][1].rate.add(1.0, 500)
    for number in range(MAX_ACTORS_NAMED):
        ask(site, f"a{number}")
    site.count.stale, site.count.refused = 3, 1
    report = site.report(1.0)
    assert (report.actors, report.by_hand, report.stale, report.refused) == (257, 256, 3, 1)
    assert report.named[0] == (0, "first", 500.0) and len(report.named) == MAX_ACTORS_NAMED
    assert unpack(pack(report), HEADER_BYTES) == report


def test_names_of_any_length_fit() -> None:
    site = site_of()
    for number in range(MAX_ACTORS_NAMED):
        ask(site, f"{number:03}".ljust(MAX_NAME, "\N{SNOWMAN}"))
    report = site.report(1.0)
    assert 0 < len(report.named) < MAX_ACTORS_NAMED == report.actors
    assert len(pack(report)) <= NAMED_BYTES + 200


def test_more_actors_than_a_run_may_have_make_no_message_that_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    site = site_of()
    ask(site)
    monkeypatch.setattr(site.peers, "role", lambda _: [(b"a", site.peers.get(b"a"))] * 5000)
    report = site.report(1.0)
    assert report.actors == report.by_hand == MAX_ACTORS
