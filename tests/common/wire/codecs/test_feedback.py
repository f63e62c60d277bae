from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from actor.core import RESEND_SECONDS, ActorCore, Effect, Forget, Reship, Ship
from actor.rollout_summary import Harvest
from common.settings.codec_names import COARSE, NAMES, PARTS
from common.wire.codecs.feedback import ErrorFeedback
from common.wire.codecs.packed import PackedCodec
from common.wire.codecs.registry import make
from common.wire.messages import Acknowledgement, Refused, Verdict, Welcome
from tests.helpers.examples import examples
from tests.helpers.run import hello_of, welcome_of

SIZE = 700
LOSSY = pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("none")])
FINE = pytest.mark.parametrize("name", [name for name in NAMES if PARTS[name][0] not in ("none", *COARSE)])
ROUGH = pytest.mark.parametrize("name", COARSE)


def gradients(count: int) -> list[torch.Tensor]:
    """Mostly alike, of very different magnitudes: what rounding loses again and again."""
    generator = torch.Generator().manual_seed(0)
    mean = torch.randn(SIZE, generator=generator).pow(5) * 1e-3
    return [mean + 1e-5 * torch.randn(SIZE, generator=generator) for _ in range(count)]


def decoded(packed: PackedCodec, body: bytes) -> torch.Tensor:
    out = torch.empty(SIZE)
    packed.decode(body, out)
    return out.double()


@FINE
def test_the_decoded_sum_is_the_sum_once_the_residual_is_flushed(name: str) -> None:
    packed = make(name, SIZE)
    feedback = ErrorFeedback(packed)
    vectors = gradients(30)
    total = expected = torch.zeros(SIZE, dtype=torch.float64)
    for vector in [*vectors, *[torch.zeros(SIZE)] * 6]:
        total = total + decoded(packed, feedback.encode(vector))
        expected = expected + vector.double()
    assert torch.allclose(total, expected, rtol=1e-6, atol=1e-7)


@FINE
def test_the_error_of_the_sum_never_exceeds_that_of_one_vector(name: str) -> None:
    packed = make(name, SIZE)
    feedback = ErrorFeedback(packed)
    error = plain_error = torch.zeros(SIZE, dtype=torch.float64)
    for vector in gradients(30):
        bound = packed.bound(vector - error.float())
        error = error + decoded(packed, feedback.encode(vector)) - vector.double()
        plain_error = plain_error + decoded(packed, packed.encode(vector)) - vector.double()
        assert (error.abs() <= 1.001 * bound + 1e-7).all()
    assert error.norm() < 0.2 * plain_error.norm()


@ROUGH
def test_what_is_owed_is_the_vectors_less_what_was_sent_and_stays_bounded(name: str) -> None:
    feedback = ErrorFeedback(make(name, SIZE, 0.1))
    owed = torch.zeros(SIZE, dtype=torch.float64)
    norms = []
    for vector in gradients(400):
        owed = owed + vector.double() - decoded(feedback.packed, feedback.encode(vector))
        assert torch.allclose(feedback.residual.double(), owed, atol=1e-5)
        norms.append(owed.norm().item())
    assert max(norms[200:]) < 1.2 * max(norms[:200]), "it grows without end"
    assert norms[-1] < 0.25 * sum(vector.double() for vector in gradients(400)).norm(), "most has come through"


def test_a_lossless_codec_carries_nothing() -> None:
    packed = make("none+lz4", SIZE)
    feedback = ErrorFeedback(packed)
    for vector in gradients(3):
        assert feedback.encode(vector) == packed.encode(vector)


@LOSSY
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_a_bad_gradient_is_sent_as_bad_and_spoils_none_after_it(name: str, bad: float) -> None:
    feedback, untroubled = (ErrorFeedback(make(name, SIZE)) for _ in range(2))
    first, second, third = gradients(3)
    spoilt = second.clone()
    spoilt[5] = bad
    assert feedback.encode(first) == untroubled.encode(first)
    assert not decoded(feedback.packed, feedback.encode(spoilt))[5].isfinite()
    assert feedback.encode(third) == untroubled.encode(third)


@LOSSY
def test_a_dropped_body_leaves_all_as_if_it_had_not_been(name: str) -> None:
    feedback, untroubled = (ErrorFeedback(make(name, SIZE)) for _ in range(2))
    first, second, third = gradients(3)
    assert feedback.encode(first, 1) == untroubled.encode(first, 1)
    feedback.answered(1, dropped=False)
    untroubled.answered(1, dropped=False)
    feedback.encode(second * 1e9, 2)
    feedback.answered(2, dropped=True)
    assert feedback.encode(third, 3) == untroubled.encode(third, 3)


def test_while_a_body_is_open_its_loss_is_carried_and_only_the_first_answer_counts() -> None:
    feedback, closed = (ErrorFeedback(make("sign", SIZE)) for _ in range(2))
    first, second = gradients(2)
    feedback.encode(first, 1)
    closed.encode(first)
    assert feedback.encode(second, 2) == closed.encode(second)
    feedback.answered(1, dropped=False)
    feedback.answered(1, dropped=True)
    feedback.answered(7, dropped=True)
    assert torch.allclose(feedback.residual, closed.residual, atol=1e-9)
    feedback.reset()
    feedback.answered(2, dropped=False)
    assert not feedback.residual.any()


@LOSSY
def test_reset_forgets(name: str) -> None:
    packed = make(name, SIZE)
    feedback = ErrorFeedback(packed)
    first, second = gradients(2)
    feedback.encode(first)
    assert feedback.encode(second) != packed.encode(second)
    feedback.reset()
    assert feedback.encode(second) == packed.encode(second)


def test_the_vector_is_left_alone() -> None:
    vector = gradients(1)[0]
    before = vector.clone()
    ErrorFeedback(make("int8", SIZE)).encode(vector)
    assert torch.equal(vector, before)


class Flow:
    """One actor's core and feedback as its daemon joins them, a network that loses, and what a learner took."""

    def __init__(self, name: str, credit: int) -> None:
        self.packed = make(name, SIZE, 0.1)
        self.feedback = ErrorFeedback(self.packed)
        self.credit, self.now = credit, 0.0
        self.core = ActorCore(hello_of(), 0.0)
        self.core.tick(0.0)
        self.sum = torch.zeros(SIZE)
        self.bodies: dict[int, bytes] = {}
        self.given: dict[int, torch.Tensor] = {}
        """What was put into each message."""
        self.underway: list[tuple[int, bytes]] = []
        self.judged: dict[int, Verdict] = {}
        self.taken = torch.zeros(SIZE, dtype=torch.float64)
        self.wronged = torch.zeros(SIZE, dtype=torch.float64)
        """Contents that were dropped, of which the actor heard `duplicate`."""
        self.hear(welcome_of(credit=credit))

    def hear(self, message: Welcome | Acknowledgement | Refused) -> None:
        self.do(self.core.handle(self.now, message, None))

    def do(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Ship(header):
                    self.given[header.sequence] = self.sum.double()
                    self.bodies[header.sequence] = self.feedback.encode(self.sum, header.sequence)
                    self.sum.zero_()
                    self.underway.append((header.sequence, self.bodies[header.sequence]))
                case Reship(header):
                    self.underway.append((header.sequence, self.bodies[header.sequence]))
                case Forget(sequence=number) if number:
                    self.bodies.pop(number, None)
                    self.feedback.answered(number, dropped=effect.dropped)

    def play(self, gradient: torch.Tensor) -> None:
        if self.core.state == "working":
            self.sum += gradient
            self.do(self.core.harvested(self.now, Harvest(version=10, steps=1, emulator_frames=1, count=1)))

    def arrive(self, verdict: Verdict, answered: bool) -> None:
        """The oldest message under way reaches the learner; its answer may get lost."""
        if not self.underway:
            return
        number, body = self.underway.pop(0)
        first = number not in self.judged
        if first:
            self.judged[number] = verdict
            if verdict == "applied":
                self.taken += decoded(self.packed, body)
        unheard = number in self.bodies
        if not answered:
            return
        if not first and unheard and self.judged[number] != "applied":
            self.wronged += decoded(self.packed, body)
        said = verdict if first else "duplicate"
        self.hear(Acknowledgement(sequence=number, verdict=said, version=10, credit=self.credit, actors=1))
        if said in ("stale", "refused"):
            del self.given[number]

    def reconnect(self) -> None:
        self.underway.clear()
        self.hear(Refused(code="unknown", reason="say hello first"))
        self.hear(welcome_of(credit=self.credit))


@pytest.mark.parametrize("name", ["int8", *COARSE])
@settings(max_examples=examples(25))
@given(
    credit=st.integers(1, 3),
    events=st.lists(
        st.tuples(
            st.sampled_from(["play", "play", "arrive", "arrive", "arrive", "reconnect", "wait"]),
            st.sampled_from(["applied", "applied", "stale", "refused"]),
            st.sampled_from([True, True, False]),
        ),
        max_size=40,
    ),
)
def test_nothing_is_lost_nor_counted_twice_whatever_the_learner_and_the_network_do(
    name: str, credit: int, events: list[tuple[str, Verdict, bool]]
) -> None:
    flow = Flow(name, credit)
    for (event, verdict, answered), gradient in zip(events, gradients(len(events)), strict=True):
        match event:
            case "play":
                flow.play(gradient)
            case "arrive":
                flow.arrive(verdict, answered)
            case "reconnect":
                flow.reconnect()
            case _:
                flow.now += RESEND_SECONDS
                flow.do(flow.core.tick(flow.now))
    flow.reconnect()
    while flow.underway:
        flow.arrive("applied", True)
    assert not flow.bodies
    accounted = flow.taken + flow.wronged + flow.feedback.residual.double()
    expected = sum(flow.given.values(), torch.zeros(SIZE, dtype=torch.float64))
    assert torch.allclose(accounted, expected, rtol=1e-4, atol=1e-6)
