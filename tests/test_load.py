"""What many peers, or one that asks too much, cost the learner: counted in work and bytes, not in time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest

from common.wire.messages import Goodbye, Heartbeat, Pull, Stop, Weights, Welcome
from learner.core import LearnerCore
from learner.effects import Send
from learner.parameters import publisher
from tests.helpers.run import gradient_of, hello_of, learner_of, sent, version_of

BODY = b"gradient"
FEW, MANY = 20, 1000


def house(actors: int, *assignments: str) -> LearnerCore:
    core, _ = learner_of("exchange.coalesce=1", *assignments)
    for number in range(actors):
        core.handle(0.0, str(number).encode(), hello_of(str(number)), None)
    return core


def instructions(work: Callable[[], Any]) -> int:
    """Of Python's interpreter; what one of them does in C, such as looking at a whole dict, is not seen."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize(
    "message", [gradient_of(1), Pull(version=0), Heartbeat(), Goodbye(reason="enough")], ids=lambda m: type(m).__name__
)
def test_a_message_costs_the_same_among_few_and_among_many(message: Any) -> None:
    costs = []
    for actors in (FEW, MANY):
        core = house(actors)
        core.handle(1.0, b"8", gradient_of(1), BODY)  # looks at all actors, as one message in each second does
        costs.append(instructions(partial(core.handle, 1.0, b"7", message, BODY)))
    assert costs[1] < 1.1 * costs[0] + 50


def test_a_gradient_of_a_synchronous_run_too_until_the_step() -> None:
    costs = []
    for actors in (FEW, MANY):
        core = house(actors, "staleness.policy=synchronous")
        core.handle(1.0, b"7", gradient_of(1), BODY)
        costs.append(instructions(partial(core.handle, 1.0, b"8", gradient_of(1), BODY)))
    assert costs[1] < 1.1 * costs[0] + 50


@pytest.mark.parametrize("routing_id", [b"new", b"7"])
def test_so_does_a_hello(routing_id: bytes) -> None:
    """Of one that is new, and of one that has connected anew."""
    hello = hello_of("7" if routing_id == b"7" else "new")
    few, many = (instructions(partial(house(actors).handle, 1.0, b"z", hello, None)) for actors in (FEW, MANY))
    assert many < 1.1 * few + 50


def bodies(effects: list[Any]) -> list[int]:
    """Versions of the weights that go out."""
    return [version_of(one.body) for one in effects if isinstance(one, Send) and one.body is not None]


def test_one_copy_of_the_weights_for_a_join() -> None:
    """A slow link: the hello is said again while the first welcome is under way."""
    core, _ = learner_of()
    sizes = [bodies(core.handle(float(second), b"x", hello_of("x"), None)) for second in range(8)]
    assert sizes == [[0]] + [[]] * 7
    moved = core.handle(9.0, b"y", hello_of("x"), None)
    assert sent(moved, Welcome) and bodies(moved) == [], "it has them, or asks"
    assert bodies(core.handle(9.1, b"y", Pull(version=0, whole=True), None)) == [0]
    assert [bodies(core.handle(10.0 + n, b"y", Pull(version=0, whole=True), None)) for n in range(7)] == [[]] * 7


def test_large_weights_are_pulled_within_the_egress_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """A join storm: a thousand actors, and room for 40 bodies a second."""
    monkeypatch.setattr(publisher, "WELCOME_BYTES", 4)
    core, _ = learner_of(f"exchange.egress_mbit={40 * 8 * 8 / 1e6}")
    names = [str(number).encode() for number in range(1000)]
    for name in names:
        assert bodies(core.handle(0.0, name, hello_of(name.decode()), None)) == []
    sent_at_once = [bodies(core.handle(0.0, name, Pull(version=0, whole=True), None)) for name in names]
    assert sum(map(len, sent_at_once)) == 1
    went = sum(len(bodies(core.tick(hundredth / 100))) for hundredth in range(1, 501))
    assert 150 <= went <= 201, "40 a second, in their order"
    core.handle(5.0, names[500], Goodbye(reason="enough"), None)
    later = [one for hundredth in range(501, 2990) for one in core.tick(hundredth / 100) if isinstance(one, Send)]
    told = [one.peer for one in later if isinstance(one.message, Weights)]
    assert len(told) == len(set(told)) > 750
    assert names[500] not in told


def test_after_the_end_whoever_has_not_heard_is_told_again() -> None:
    core, _ = learner_of("limits.frames=20")
    for name in "ab":
        core.handle(0.0, name.encode(), hello_of(name), None)
    core.handle(0.0, b"o", hello_of("o", "observer"), None)
    core.handle(1.0, b"a", gradient_of(1), BODY)
    core.tick(1.0)
    assert core.present == 2
    assert core.handle(1.1, b"a", Goodbye(reason="the run is over"), None) == []
    assert core.handle(1.1, b"b", gradient_of(1), BODY) == []
    assert core.present == 1
    assert [one.peer for one in core.remind() if isinstance(one, Send)] == [b"b", b"o"]
    (stop,) = sent(core.handle(1.2, b"c", hello_of("b"), None), Stop, b"c")
    assert stop.final, "its connection was broken when it was said"
