"""What operators order, at the learner's core."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from common.errors import WireError
from common.settings.sections import MAX_ACTORS
from common.wire.messages import (
    AnyMessage,
    FleetOrder,
    Halt,
    Refused,
    Save,
    Saved,
    Scale,
    Scaled,
    Stop,
)
from learner.core import LearnerCore
from learner.effects import Effect, Finish, SaveCheckpoint, WriteMetrics
from learner.run_stats import Counters
from tests.helpers.run import gradient_of, hello_of, learner_of, logged, sent

LOAD = ("scaling.policy=load", "scaling.minimum=2", "scaling.maximum=8")
ORDERS = (Halt(), Save(), Scale(minimum=3, maximum=3))


def led(*assignments: str, names: str = "o", **given: Any) -> LearnerCore:
    """A learner with these operators, and an actor."""
    core, _ = learner_of(*assignments, **given)
    for name in names:
        core.handle(0.0, name.encode(), hello_of(name, "operator"), None, address="127.0.0.1")
    core.handle(0.0, b"x", hello_of("x"), None)
    core.tick(0.0)
    return core


def order(core: LearnerCore, now: float, message: AnyMessage, name: bytes = b"o") -> list[Effect]:
    return core.handle(now, name, message, None)


def saves(effects: list[Effect]) -> list[int]:
    return [effect.version for effect in effects if isinstance(effect, SaveCheckpoint)]


def why_refused(effects: list[Effect]) -> str:
    (refused,) = sent(effects, Refused, b"o")
    assert refused.code == "order"
    return refused.reason


def settings_and_figures(core: LearnerCore) -> tuple[Any, ...]:
    stats = core.run.stats
    return core.run.spec, stats.counters, stats.decision, stats.state, core.run.saves.deadline


def test_a_checkpoint_is_made_at_once_and_told_of_when_it_is_on_the_disk() -> None:
    core = led("checkpoint.every_seconds=0")
    effects = order(core, 1.0, Save())
    assert sent(effects, Saved) == [] and logged(effects) == ["info: operator o (address 127.0.0.1): a checkpoint"]
    assert core.deadline <= 1.0
    assert saves(core.tick(1.0)) == [0]
    assert sent(core.saved(1.5, 0, "", "/srv/0"), Saved, b"o") == [Saved(version=0, path="/srv/0")]
    assert saves(core.tick(2.0)) == []


def test_who_asks_while_one_is_written_waits_for_the_next() -> None:
    core = led("checkpoint.every_seconds=0", names="op")
    order(core, 1.0, Save())
    assert saves(core.tick(1.0)) == [0]
    order(core, 1.2, Save(), b"p")
    order(core, 1.4, Save(), b"p")
    assert saves(core.tick(1.5)) == []
    effects = core.saved(2.0, 0, "")
    assert (len(sent(effects, Saved, b"o")), sent(effects, Saved, b"p")) == (1, [])
    assert saves(core.tick(2.0)) == [0]
    effects = core.saved(2.5, 0, "", "/srv/0-1")
    assert (sent(effects, Saved), sent(effects, Saved, b"p")) == ([Saved(version=0, path="/srv/0-1")],) * 2


def test_a_disk_that_does_not_take_it_is_told_of() -> None:
    core = led()
    order(core, 1.0, Save())
    core.tick(1.0)
    effects = core.saved(2.0, 0, "no space left on device")
    assert sent(effects, Saved, b"o") == [Saved(version=0, error="no space left on device")]
    assert "error: the checkpoint could not be written" in logged(effects)[0]


def test_the_run_is_stopped_after_a_checkpoint_that_is_told_of_and_the_peers_expect_the_learner_back() -> None:
    core = led()
    core.handle(0.5, b"x", gradient_of(), b"gradient")
    assert order(core, 1.0, Halt()) == []
    core.flush(1.0)
    effects = core.tick(1.0)
    (finish,) = [effect for effect in effects if isinstance(effect, Finish)]
    assert (finish.ending, finish.reason) == ("stopped", "stopped by operator o (address 127.0.0.1)")
    assert [(stop.final, stop.reason) for stop in sent(effects, Stop, b"x")] == [
        (False, "the learner was stopped; it may come back")
    ]
    assert (saves(effects), core.run.stats.state) == ([1], "stopped")
    assert not [one for one in core.tick(1.1) if isinstance(one, Finish)]
    assert sent(core.saved(2.0, 1, "", "/srv/1"), Saved, b"o") == [Saved(version=1, path="/srv/1")]


def test_who_waits_when_the_weights_are_no_numbers_is_told_that_nothing_is_saved() -> None:
    for message in (Halt(), Save()):
        core, noted = learner_of()
        core.handle(0.0, b"o", hello_of("o", "operator"), None, address="127.0.0.1")
        core.handle(0.0, b"x", hello_of("x"), None)
        noted.weights.vector[0] = math.nan
        order(core, 1.0, message)
        effects = core.tick(1.0)
        (saved,) = sent(effects, Saved, b"o")
        assert "no longer finite" in saved.error and saves(effects) == []
        assert [effect.ending for effect in effects if isinstance(effect, Finish)] == ["failed"]
        assert [stop.final for stop in sent(effects, Stop, b"x")] == [True], "it does not come back"


def test_after_the_end_nothing_is_taken() -> None:
    core = led("limits.seconds=1")
    core.tick(2.0)
    for message in ORDERS:
        assert "the run is over" in why_refused(order(core, 2.0, message))


def test_a_number_is_ordered_logged_and_in_the_metrics_until_the_end() -> None:
    core = led(*LOAD)
    core.handle(0.0, b"l", hello_of("l", "launcher", slots=6), None)
    effects = order(core, 1.0, Scale(minimum=5, maximum=5))
    assert sent(effects, Scaled, b"o") == [Scaled(minimum=5, maximum=5, wanted=5, room=6)]
    assert [one.actors for one in sent(effects, FleetOrder, b"l")] == [5]
    assert logged(effects) == [
        "info: operator o (address 127.0.0.1): actors 5",
        "info: scaling: as operator o said: 5 actors",
    ]
    for now in (2.0, 30.0):
        (row,) = [effect.row for effect in core.tick(now) if isinstance(effect, WriteMetrics)]
        assert (row["actors_wanted"], row["why"]) == (5, "as operator o said: 5 actors")
    (zero,) = sent(order(core, 31.0, Scale(minimum=0, maximum=0)), Scaled)
    assert zero.wanted == 0
    core.tick(32.0)
    core.tick(33.0)
    assert core.run.stats.decision.wanted == 0


def test_bounds_are_the_policys_from_then_on() -> None:
    core = led(*LOAD)
    (scaled,) = sent(order(core, 1.0, Scale(minimum=6, maximum=7)), Scaled)
    assert scaled == Scaled(minimum=6, maximum=7, wanted=6, room=0)
    assert core.run.stats.decision.why == "bounds 6 to 7: 2 -> 6 actors (6 to 7 as operator o said)"
    assert sent(order(core, 2.0, Scale(minimum=1, maximum=3)), Scaled)[0].wanted == 3
    core.tick(3.0)
    assert core.run.stats.decision.why.endswith("(1 to 3 as operator o said)")


def test_they_are_kept_in_checkpoints_until_the_settings_are_changed() -> None:
    core = led(*LOAD)
    order(core, 1.0, Scale(minimum=0, maximum=0))
    order(core, 2.0, Save())
    (save,) = [effect for effect in core.tick(2.0) if isinstance(effect, SaveCheckpoint)]
    plain = save.state["counters"]
    for assignments, wanted in ((LOAD, 0), ((*LOAD[:2], "scaling.maximum=9"), 2)):
        counters = msgspec.convert(plain, Counters)
        resumed, _ = learner_of(*assignments, counters=counters)
        effects = resumed.handle(0.0, b"l", hello_of("l", "launcher", slots=6), None)
        effects += resumed.tick(0.0)
        assert {one.actors for one in sent(effects, FleetOrder)} == {wanted}


@pytest.mark.parametrize(
    ("assignments", "message", "why"),
    [
        (LOAD, Scale(minimum=4, maximum=3), "the minimum 4 is above the maximum 3"),
        ((), Scale(minimum=2, maximum=3), 'scaling.policy = "fixed"'),
        (
            ("reproducible=true", "staleness.policy=synchronous", "optimizer.device=cpu"),
            Scale(minimum=1, maximum=1),
            "reproducible = true",
        ),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(assignments: tuple[str, ...], message: Scale, why: str) -> None:
    core = led(*assignments)
    before = settings_and_figures(core)
    assert why in why_refused(order(core, 1.0, message))
    assert settings_and_figures(core) == before


def test_an_operator_that_cannot_be_understood_is_told_and_nothing_changes() -> None:
    core = led()
    before = settings_and_figures(core)
    effects = core.malformed(b"o", WireError("a header that is no message: `minimum`"))
    assert "`minimum`" in why_refused(effects)
    assert not sent(core.malformed(b"x", WireError("noise")), Refused)
    assert settings_and_figures(core) == before


def test_orders_that_come_too_fast_are_refused_but_for_the_end() -> None:
    core = led(names="op")
    assert not sent(order(core, 1.0, Scale(minimum=3, maximum=3)), Refused)
    assert "0.1 s apart" in why_refused(order(core, 1.05, Save()))
    assert sent(order(core, 1.05, Save(), b"p"), Refused, b"p")
    assert order(core, 1.05, Halt()) == []


@pytest.mark.parametrize("role", ["actor", "launcher", "observer", "evaluator"])
def test_nobody_else_can_order_anything(role: Any) -> None:
    core = led()
    core.handle(0.0, b"y", hello_of("y", role, slots=1), None, address="127.0.0.1")
    before = settings_and_figures(core)
    for message in ORDERS:
        (refused,) = sent(core.handle(1.0, b"y", message, None), Refused, b"y")
        assert (refused.code, refused.reason) == ("role", f"a learner takes no such message from a {role}")
        (refused,) = sent(core.handle(1.0, b"stranger", message, None), Refused)
        assert refused.code == "unknown"
    assert settings_and_figures(core) == before
    assert not [one for one in core.tick(1.0) if isinstance(one, Finish | SaveCheckpoint)]


def test_launchers_that_claim_room_without_end_cost_nothing() -> None:
    core = led()
    for name in "lm":
        core.handle(0.0, name.encode(), hello_of(name, "launcher", slots=2**63 - 1), None)
    assert sent(order(core, 1.0, Scale(minimum=3, maximum=3)), Scaled)[0].room == MAX_ACTORS
