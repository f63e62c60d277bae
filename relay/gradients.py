"""The gradients of a site, judged as a learner judges them, until they are in a sum.

duplicate: seen before          refused: cannot be used; the third in a row quarantines the actor
stale: too old                  applied: added to the sum

What comes when the sum is full waits, and its actor with it: at most `exchange.credit` of each actor do.
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
    """Its answer comes no earlier."""

    @property
    def key(self) -> tuple[Incarnation, int]:
        return self.peer.incarnation, self.header.sequence


@dataclass
class Count:
    """Since the relay started."""

    stale: int = 0
    refused: int = 0


class Gradients:
    """Of one epoch of the learner."""

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
        """`actors`: in the whole run, by which lag is judged. `warn`: tells people what an actor did."""
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
        """In no sum yet."""
        self._held: list[_Waiting] = []
        """In a sum, and not answered yet."""
        self._unanswered: Counter[Incarnation] = Counter()
        """How many of these are each actor's."""

    @property
    def deadline(self) -> float:
        """When `answer` has something to do."""
        return min((one.until for one in self._held), default=math.inf)

    def handle(
        self, now: float, routing_id: bytes, peer: Peer, header: Contribution, body: Buffer | None
    ) -> list[Effect]:
        """One that has come; `fill` adds it to the sum."""
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
        """Adds to the sum what waits, as long as there is room; who waited longest comes first."""
        effects: list[Effect] = []
        while self._waiting and self._sum.has_room(self._waiting[0].header):
            effects += self._take(now, self._waiting.popleft())
        return effects

    def answer(self, now: float) -> list[Effect]:
        """Of those that were too fast, the answers that are due."""
        due = [one for one in self._held if one.until <= now]
        self._held = [one for one in self._held if one.until > now]
        return [self._applied(one) for one in due]

    def _take(self, now: float, one: _Waiting) -> list[Effect]:
        """Adds one to the sum, unless it is too old by now, or cannot be used."""
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
        """What the sum's header takes over. An episode of more steps than the actor has told of is left out."""
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
        """The answer to one that waits goes to where it came from last; others were answered before."""
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
        """One fewer of its actor's is unanswered."""
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
