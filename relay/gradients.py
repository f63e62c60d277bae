"""Judges the gradients of a site as a learner judges them, and adds them to the relay's sum.

duplicate: seen before          refused: cannot be used; the third in a row quarantines the actor
stale: too old                  applied: added to the sum

Gradients that come while the sum is full must wait, at most `exchange.credit` of each actor.
"""

import math
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass

from actor.rollout_summary import RolloutSummary
from common.errors import AgainstOthersError, CodecError
from common.rl.algorithms.statistics import known
from common.rl.episode import Episode
from common.rl.moments import Moments
from common.wire.frames import Buffer
from common.wire.messages import Acknowledgement, Contribution, Gradient, Verdict
from learner.effects import Effect, Send, refuse
from learner.exchange.header_check import HeaderCheck
from learner.exchange.pace import Pace
from learner.exclusion import Discipline
from learner.peer import Peer
from learner.peers import Peers
from learner.replay_window import Incarnation
from learner.run import RunSpec
from learner.staleness import staleness_rule
from relay.sum_player import SumPlayer
from relay.weights import KeptWeights

PLURAL = "gradients"


@dataclass(eq=False, slots=True)
class _Waiting:
    routing_id: bytes
    peer: Peer
    header: Gradient
    body: Buffer
    seen: Moments
    until: float
    """Earliest time of the answer."""

    @property
    def key(self) -> tuple[Incarnation, int]:
        return self.peer.incarnation, self.header.sequence


@dataclass
class Count:
    """Gradients since the relay started that were too old, or could not be used."""

    stale: int = 0
    refused: int = 0


class Gradients:
    """The gradients of one epoch of the learner."""

    def __init__(
        self,
        spec: RunSpec,
        peers: Peers,
        weights: KeptWeights,
        total: SumPlayer,
        count: Count,
        *,
        actors: Callable[[], int],
        warn: Callable[[str], None],
    ) -> None:
        """`actors`: number of actors in the whole run, for the limit on lag. `warn`: tells people what an actor did."""
        self._spec = spec
        self._peers = peers
        self._weights = weights
        self._sum = total
        self._count = count
        self._actors = actors
        self._credit = spec.settings.exchange.credit
        self._headers = HeaderCheck(spec, Gradient, PLURAL)
        self._staleness = staleness_rule(spec.settings)
        self._pace = Pace(peers)
        self._discipline = Discipline(peers, warn, PLURAL)
        self._warn = warn
        self._waiting: deque[_Waiting] = deque()
        """Gradients that are in no sum yet."""
        self._held: list[_Waiting] = []
        """Gradients in a sum whose answer is held back, because their actor was too fast."""
        self._unanswered: Counter[Incarnation] = Counter()
        """Number of each actor's gradients in `_waiting` and `_held`."""

    @property
    def deadline(self) -> float:
        """The time when `answer` next has something to do."""
        return min((one.until for one in self._held), default=math.inf)

    def handle(
        self, now: float, routing_id: bytes, peer: Peer, header: Contribution, body: Buffer | None
    ) -> list[Effect]:
        """Judges a gradient that has arrived; `fill` adds it to the sum."""
        spec = self._spec
        if header.run != spec.run or header.epoch != spec.epoch:
            peer.offences += 1
            text = f"this is run {spec.run}, epoch {spec.epoch}"
            return self._discipline.offended(now, routing_id, peer, text) or [refuse(routing_id, "unknown", text)]
        if self._peers.is_duplicate(peer, header.sequence):
            return self._repeated(routing_id, peer, header)
        if self._unanswered[peer.incarnation] >= self._credit:
            peer.offences += 1
            text = f"its credit is {self._credit}: wait for an answer"
            self._refused(peer, f"{peer.hello.name} does not wait for answers: {text}")
            out = self._discipline.offended(now, routing_id, peer, text)
            return out or [self._answer(routing_id, header, "refused", text)]
        try:
            self._headers.check(peer, header, self._weights.version)
            if body is None or not isinstance(header, Gradient):
                raise CodecError("without a body")
            seen = Moments.merge_all(header.moments, spec.counted, rollouts=header.count, steps=header.steps)
        except CodecError as error:
            return self._unusable(now, routing_id, peer, header, str(error))
        until = self._pace.sent(now, peer.hello.name, header.count)
        self._waiting.append(_Waiting(routing_id, peer, header, body, seen, until))
        self._unanswered[peer.incarnation] += 1
        return []

    def fill(self, now: float) -> list[Effect]:
        """Adds waiting gradients to the sum while there is room, those that waited longest first."""
        effects: list[Effect] = []
        while self._waiting and self._sum.has_room(self._waiting[0].header):
            effects += self._take(now, self._waiting.popleft())
        return effects

    def answer(self, now: float) -> list[Effect]:
        """Returns the answers that were held back and are now due."""
        due = [one for one in self._held if one.until <= now]
        self._held = [one for one in self._held if one.until > now]
        return [self._applied(one) for one in due]

    def _take(self, now: float, one: _Waiting) -> list[Effect]:
        """Adds a waiting gradient to the sum, unless it is too old by now or cannot be used."""
        peer, header = one.peer, one.header
        lag, limit = self._weights.version - header.version, self._staleness.limit(self._actors())
        peer.plays = True
        peer.smooth_lag(lag)
        if limit is not None and lag > limit:
            self._done(one)
            peer.stale += 1
            self._count.stale += 1
            why = f"{lag} versions old, at most {limit} are taken"
            return [self._answer(one.routing_id, header, "stale", why)]
        try:
            name, number = peer.hello.name, peer.seed
            summary = self._summary(peer, header)
            self._sum.add(summary, header.codec, one.body, one.seen, source=name, number=number)
        except AgainstOthersError as error:
            self._done(one)
            self._refused(peer, str(error))
            return [self._answer(one.routing_id, header, "refused", str(error))]
        except CodecError as error:
            self._done(one)
            return self._unusable(now, one.routing_id, peer, header, str(error))
        peer.bad_in_a_row = 0
        peer.gradients += 1
        peer.frames += header.steps
        peer.finished_steps += sum(episode.length for episode in summary.episodes)
        peer.rate.add(now, header.steps)
        if one.until > now:
            self._held.append(one)
            return []
        return [self._applied(one)]

    def _summary(self, peer: Peer, header: Gradient) -> RolloutSummary:
        """Returns what the sum's header takes over, without episodes of more steps than the actor has reported."""
        episodes: list[Episode] = []
        finished = peer.finished_steps
        for episode in header.episodes:
            if finished + episode.length <= peer.claimed_steps:
                finished += episode.length
                episodes.append(episode)
        return RolloutSummary(
            version=header.version,
            steps=header.steps,
            emulator_frames=header.emulator_frames,
            count=header.count,
            episodes=episodes,
            statistics=known(header.statistics),
        )

    def _repeated(self, routing_id: bytes, peer: Peer, header: Contribution) -> list[Effect]:
        """Handles a duplicate: one that still waits is answered later, at its newest routing id; others at once."""
        for one in (*self._waiting, *self._held):
            if one.key == (peer.incarnation, header.sequence):
                one.routing_id = routing_id
                return []
        return [self._answer(routing_id, header, "duplicate")]

    def _unusable(self, now: float, routing_id: bytes, peer: Peer, header: Contribution, why: str) -> list[Effect]:
        line = self._discipline.unusable(peer, header, why)
        self._refused(peer, line.text)
        out = self._discipline.enough(now, routing_id, peer, why)
        return [line, *(out or [self._answer(routing_id, header, "refused", why)])]

    def _refused(self, peer: Peer, text: str) -> None:
        peer.refused += 1
        self._count.refused += 1
        self._warn(text)

    def _applied(self, one: _Waiting) -> Send:
        self._done(one)
        return self._answer(one.routing_id, one.header, "applied")

    def _done(self, one: _Waiting) -> None:
        """Counts one unanswered gradient of its actor less."""
        name = one.peer.incarnation
        self._unanswered[name] -= 1
        if not self._unanswered[name]:
            del self._unanswered[name]

    def _answer(self, routing_id: bytes, header: Contribution, verdict: Verdict, why: str = "") -> Send:
        message = Acknowledgement(
            sequence=header.sequence,
            verdict=verdict,
            version=self._weights.version,
            credit=self._credit,
            actors=self._actors(),
            why=why,
        )
        return Send(routing_id, message)
