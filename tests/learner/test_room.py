from __future__ import annotations

import pytest

import learner.room
from common.settings.sections import MAX_ACTORS
from common.wire.messages import FleetOrder, Refused, Welcome
from learner.core import LearnerCore
from learner.effects import Effect
from learner.room import GIVES_WAY, actors_that_fit
from tests.helpers.run import hello_of, learner_of, logged, sent

CROWD, LAB = "10.0.0.7", "10.0.0.8"


def join(core: LearnerCore, name: str, address: str, role: str = "actor") -> list[Effect]:
    return core.handle(0.0, name.encode(), hello_of(name, role), None, address=address)


def full_of(count: int, role: str = "actor") -> LearnerCore:
    """A learner with room for this many actors or launchers, all of them at one address."""
    core, _ = learner_of("exchange.kind=gradients")
    core.admission._room._most_actors = count
    for number in range(count):
        assert sent(join(core, f"crowd{number}", CROWD, role), Welcome)
    return core


def names(core: LearnerCore, role: str = "actor") -> list[str]:
    return [peer.hello.name for _, peer in core.run.peers.role(role)]


def test_the_newest_of_whoever_has_most_give_way_until_both_have_as_many() -> None:
    core = full_of(5)
    for number, gone in enumerate(["crowd4", "crowd3"]):
        effects = join(core, f"lab{number}", LAB)
        assert [one.code for one in sent(effects, Refused, gone.encode())] == ["role"]
        assert f"warning: actor {gone} {GIVES_WAY}" in logged(effects)
        assert sent(effects, Welcome, f"lab{number}".encode())
    for name, address in (("lab2", LAB), ("crowd4", CROWD)):
        effects = join(core, name, address)
        assert [one.code for one in sent(effects, Refused)] == ["role"]
        assert logged(effects)[0].endswith("was refused: this run has room for 5 actors, and as many are in it")
    assert names(core) == ["crowd0", "crowd1", "crowd2", "lab0", "lab1"]


def test_who_is_in_the_run_or_takes_its_predecessor_s_place_needs_no_room() -> None:
    core = full_of(2)
    assert sent(join(core, "crowd0", CROWD), Welcome)
    assert sent(core.handle(0.0, b"anew", hello_of("crowd0"), None, address=CROWD), Welcome)
    again = hello_of("crowd1", incarnation="again")
    assert sent(core.handle(0.0, b"next", again, None, address=CROWD), Welcome)
    assert sent(join(core, "watcher", LAB, "observer"), Welcome)
    assert names(core) == ["crowd0", "crowd1"]


def test_relays_and_actors_share_one_room_and_launchers_have_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner.room, "MOST_LAUNCHERS", 3)
    core = full_of(3, "launcher")
    effects = join(core, "lab", LAB, "launcher")
    assert sent(effects, Welcome) and sent(effects, FleetOrder)
    assert names(core, "launcher") == ["crowd0", "crowd1", "lab"]
    for number in range(3):
        assert sent(join(core, f"site{number}", CROWD, "relay"), Welcome)
    assert sent(join(core, "a", CROWD), Refused)
    assert sent(join(core, "a", LAB), Welcome) and names(core, "relay") == ["site0", "site1"]


def test_as_many_actors_fit_as_half_of_the_memory_holds_rollouts_of() -> None:
    assert actors_that_fit(1000, 100) == 5
    assert actors_that_fit(1000, 600) == 1, "a run with none is no run"
    assert actors_that_fit(10**12, 1) == MAX_ACTORS
