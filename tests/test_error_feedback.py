"""Error feedback under the actor's core: whatever the network loses, nothing is lost nor counted twice."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from actor.core import RESEND_SECONDS, ActorCore
from actor.effects import Effect
from actor.outbox import Send
from actor.players.base import Player
from actor.rollout_summary import RolloutSummary
from common.settings.codec_names import COARSE
from common.wire.codecs.feedback import ErrorFeedback
from common.wire.codecs.registry import PackedCodec, make
from common.wire.frames import Buffer
from common.wire.messages import Acknowledgement, Gradient, Refused, Verdict, Welcome
from tests.common.wire.codecs.test_feedback import SIZE, decoded, gradients
from tests.helpers.run import hello_of, welcome_of


class Feeding(Player):
    """Packs whatever vectors it is given, with error feedback."""

    contribution = Gradient

    def __init__(self, packed: PackedCodec) -> None:
        self.feedback = ErrorFeedback(packed)
        self.sum = torch.zeros(SIZE)
        self.summary = RolloutSummary()
        self.given: dict[int, torch.Tensor] = {}
        """The vectors in each message, but for those the actor knows to be dropped."""

    @property
    def pending(self) -> int:
        return self.summary.count

    def add(self, gradient: torch.Tensor) -> None:
        self.sum += gradient
        self.summary.add(RolloutSummary(version=10, steps=1, emulator_frames=1, count=1))

    def pack(self, sequence: int | None) -> tuple[RolloutSummary, bytes]:
        assert sequence is not None
        self.given[sequence] = self.sum.double()
        body = self.feedback.encode(self.sum.numpy(), sequence)
        self.sum.zero_()
        summary, self.summary = self.summary, RolloutSummary()
        return summary, body

    def answered(self, sequence: int, *, dropped: bool) -> None:
        self.feedback.answered(sequence, dropped=dropped)
        if dropped:
            del self.given[sequence]


class Flow:
    """One actor's core and player, a network that loses, and what a learner took."""

    def __init__(self, name: str, credit: int) -> None:
        self.packed = make(name, SIZE, 0.1)
        self.player = Feeding(self.packed)
        self.credit, self.now = credit, 0.0
        self.core = ActorCore(hello_of(), 0.0)
        self.core.tick(0.0)
        self.underway: list[tuple[int, Buffer]] = []
        self.judged: dict[int, Verdict] = {}
        self.open: set[int] = set()
        """Sent and without an answer."""
        self.taken = torch.zeros(SIZE, dtype=torch.float64)
        self.wronged = torch.zeros(SIZE, dtype=torch.float64)
        """Contents that were dropped, of which the actor heard `duplicate`."""
        self.hear(welcome_of(credit=credit))
        self.core.player = self.player

    def hear(self, message: Welcome | Acknowledgement | Refused) -> None:
        self.do(self.core.handle(self.now, message, None))

    def do(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.message, Gradient) and effect.body is not None:
                self.underway.append((effect.message.sequence, effect.body))
                self.open.add(effect.message.sequence)

    def play(self, gradient: torch.Tensor) -> None:
        if self.core.state == "working":
            self.player.add(gradient)
            self.do(self.core.advanced(self.now))

    def arrive(self, verdict: Verdict, answered: bool) -> None:
        """The oldest message under way reaches the learner; its answer may get lost."""
        if not self.underway:
            return
        number, body = self.underway.pop(0)
        first = number not in self.judged
        if first:
            self.judged[number] = verdict
            if verdict == "applied":
                self.taken += decoded(self.packed, bytes(body))
        unheard = number in self.open
        if not answered:
            return
        if not first and unheard and self.judged[number] != "applied":
            self.wronged += decoded(self.packed, bytes(body))
        said = verdict if first else "duplicate"
        self.open.discard(number)
        self.hear(Acknowledgement(sequence=number, verdict=said, version=10, credit=self.credit, actors=1))

    def reconnect(self) -> None:
        self.underway.clear()
        self.hear(Refused(code="unknown", reason="say hello first"))
        self.hear(welcome_of(credit=self.credit))


@pytest.mark.parametrize("name", ["int8", *COARSE])
@settings(max_examples=25)
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
    assert len(flow.core.outbox) == 0
    accounted = flow.taken + flow.wronged + torch.from_numpy(flow.player.feedback.residual)
    expected = sum(flow.player.given.values(), torch.zeros(SIZE, dtype=torch.float64))
    assert torch.allclose(accounted, expected, rtol=1e-4, atol=1e-6)
