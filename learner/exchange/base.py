"""What a learner and its actors exchange, behind one interface: gradients, trajectories or actions."""

import abc
import math
from dataclasses import dataclass
from typing import ClassVar

from common.errors import AgainstOthersError, CodecError
from common.rl.moments import Moments
from common.settings.sections import MAX_ACTORS
from common.wire.frames import Buffer
from common.wire.messages import Acknowledgement, Contribution, Gradient, Hello, Observe, Verdict
from learner.effects import Effect, Log, Send, refuse
from learner.exchange.header_check import HeaderCheck
from learner.exchange.pace import Pace
from learner.exchange.recorder import Recorder
from learner.exchange.step_rule import gather_seconds, step_rule
from learner.exclusion import Discipline
from learner.parameters.batch_trainer import BatchTrainer
from learner.parameters.gradient_sum import GradientSum
from learner.parameters.publisher import Occasion
from learner.parameters.step_result import StepResult
from learner.peer import Peer
from learner.replay_window import Incarnation
from learner.run import Run
from learner.staleness import staleness_rule

NOBODY = "no finite gradient of any of them; the weights are too large: try a smaller optimizer.learning_rate"


class Exchange(abc.ABC):
    """One way from the actors' messages to optimizer steps.

    The core calls `handle` for each message. It calls `step` when `is_ready` after a message, and each time after it
    has read for a while; before the latter it calls `answer`, since a step may take long.
    """

    most_actors = MAX_ACTORS
    """How many actors there is room for."""

    def __init__(self, run: Run, max_bytes: int) -> None:
        """`max_bytes`: length of the longest body that an actor may send."""
        self.max_bytes = max_bytes
        self._run = run
        self._settings = run.spec.settings
        self._step_rule = step_rule(self._settings, run.spec.device)
        run.peers.on_leave.append(self.left)

    @property
    def weights_go_out(self) -> Occasion:
        """On which occasion actors get newer weights."""
        return self._step_rule.weights_go_out

    @property
    @abc.abstractmethod
    def deadline(self) -> float:
        """When `answer` or `step` next has something to do; infinite: not before the next message."""

    @property
    @abc.abstractmethod
    def is_ready(self) -> bool:
        """Whether `step` is to be called before another message is read."""

    @property
    def gather_seconds(self) -> float:
        """Least seconds between two reads when no message is waiting."""
        return 0.0

    @abc.abstractmethod
    def choose_codec(self, hello: Hello) -> str:
        """Return the codec of this actor's bodies, or an empty text; raises A3cdError if there is no common codec."""

    @abc.abstractmethod
    def handle(
        self, now: float, routing_id: bytes, peer: Peer, message: Contribution | Observe, body: Buffer | None
    ) -> list[Effect]:
        """Take one message from an actor."""

    @abc.abstractmethod
    def step(self, now: float, *, heard_all: bool = True, whole: bool = True) -> list[Effect]:
        """Take one optimizer step with the waiting contributions, and answer them; do nothing if it is not time.

        `heard_all`: no message is waiting to be read that could belong to this step. `whole`: wait until it is full, or
        its waiting time over; otherwise take it with whatever waits.
        """

    def begin(self) -> list[Effect]:
        """Start the exchange; called before the first message."""
        return []

    def answer(self, now: float) -> list[Effect]:  # noqa: ARG002
        """Return the answers due to actors that need no optimizer step."""
        return []

    def named(self) -> list[str]:
        """Return, in words, which actors' contributions do not fit the others', and what is wrong with the device."""
        return []

    def weights_restored(self) -> None:  # noqa: B027
        """Note that earlier weights were restored, between two steps."""

    def left(self, routing_id: bytes) -> None:  # noqa: B027
        """Forget an actor that has left."""


NO_MOMENTS = Moments.empty(0)


@dataclass(slots=True)
class _Waiting:
    routing_id: bytes
    peer: Peer
    header: Contribution
    weight: float
    until: float
    """Earliest time of its answer."""


class ContributionExchange(Exchange):
    """The common part of gradients and trajectories: each is judged on arrival, and goes into an optimizer step.

    duplicate: seen before          refused: cannot be used; the third in a row quarantines the actor
    stale: too old                  applied: added to the next step, answered when that is taken

    Credit bounds what waits here: at most `exchange.credit` contributions of each actor. A contribution beyond it is
    refused before its body is read, so an actor that does not wait for answers takes no steps from the others. An actor
    that does wait, but sends faster than it can have played, waits longer for its answers (`learner.exchange.pace`).
    """

    message: ClassVar[type[Contribution]]
    plural: ClassVar[str]

    def __init__(self, run: Run, max_bytes: int, collected: GradientSum | BatchTrainer) -> None:
        """`collected`: takes what `_add` adds, and makes the steps with it."""
        super().__init__(run, max_bytes)
        self._credit = self._settings.exchange.credit
        self._staleness = staleness_rule(self._settings)
        self._headers = HeaderCheck(run.spec, self.message, self.plural)
        self._discipline = Discipline(run.peers, run.stats.warn, self.plural)
        self._collected = collected
        self._deadline = math.inf
        self._waiting: list[_Waiting] = []
        self._against: set[Incarnation] = set()
        """Actors that are left out, and have sent since the last step: no step waits for them."""
        self._grown = False
        """Whether contributions have arrived since the last call of `step`."""
        self._stepped = False
        """Whether a step was taken in this epoch."""
        paced = self._settings.exchange.credit > 0 and not self._step_rule.averages
        self._pace = Pace(run.peers) if paced else None
        self._held: list[_Waiting] = []
        """Contributions that are applied but not answered yet."""
        self._held_until = math.inf
        self._unanswered: dict[Incarnation, int] = {}
        """Number of waiting or held contributions of each actor."""
        self._seen: list[tuple[str, Moments]] = []
        """Actor and moments of each contribution that was added since the last step."""
        self._recorder = Recorder(run, collected.weights) if self._settings.record.gradients else None

    @abc.abstractmethod
    def _add(self, header: Contribution, body: Buffer, weight: float, lag: int, source: str) -> None:
        """Add a contribution of the actor `source` to the next step; raises CodecError, with nothing added."""

    @property
    def deadline(self) -> float:
        return min(self._deadline, self._held_until)

    @property
    def gather_seconds(self) -> float:
        return gather_seconds(self._step_rule, self._run.peers.senders)

    @property
    def is_ready(self) -> bool:
        rule, peers = self._step_rule, self._run.peers
        if not rule.asks_who:
            return len(self._waiting) >= rule.least(peers.actors)
        # An actor that has just joined first makes its environments, which takes seconds: only the first step waits for
        # such actors.
        here = peers.playing if self._stepped else peers.incarnations
        if not self._waiting or len(self._waiting) + len(self._against) < rule.least(len(here)):
            return False  # decided without a look at each contribution, which takes long with many actors
        return rule.is_full([*(one.peer.incarnation for one in self._waiting), *self._against], here)

    def begin(self) -> list[Effect]:
        return [] if self._recorder is None else [*self._recorder.began()]

    def handle(
        self, now: float, routing_id: bytes, peer: Peer, message: Contribution | Observe, body: Buffer | None
    ) -> list[Effect]:
        if isinstance(message, Observe):
            return [refuse(routing_id, "role", f"this run takes {self.plural}, not observations")]
        spec, peers = self._run.spec, self._run.peers
        if message.run != spec.run or message.epoch != spec.epoch:
            return self._foreign(now, routing_id, peer)
        if peers.is_duplicate(peer, message.sequence):
            return self._repeated(routing_id, peer, message)
        unanswered = self._unanswered.get(peer.incarnation, 0)
        if 0 < self._credit <= unanswered:
            return self._beyond_credit(now, routing_id, peer, message, unanswered)
        try:
            self._headers.check(peer, message, self._run.stats.counters.version)
            if body is None:
                raise CodecError("without a body")
            seen = self.moments(message)
            return self._received(now, routing_id, peer, message, body, seen)
        except CodecError as error:
            return self._refuse(now, routing_id, peer, message, str(error))

    def _received(
        self, now: float, routing_id: bytes, peer: Peer, header: Contribution, body: Buffer, seen: Moments
    ) -> list[Effect]:
        """Add a contribution with a good header to the next step unless too old; raises CodecError for a bad body."""
        stats, name = self._run.stats, peer.hello.name
        lag = stats.counters.version - header.version
        until = now if self._pace is None else self._pace.sent(now, name, header.count, peer.actors)
        stats.received(now, len(body))
        limit = self._staleness.limit(self._run.peers.actors, self._collected.reach)
        # A lag beyond the limit counts as just beyond it: an actor may lie about it, and scaling uses the mean lag.
        stats.lagged(now, peer, lag if limit is None or lag <= limit else limit + 1, header.count)
        stale = limit is not None and lag > limit
        self._run.peers.contributed(peer, stats.counters.version, stale=stale)
        if stale:
            stats.stale(peer)
            return [self._answer(routing_id, header, "stale", f"{lag} versions old, at most {limit} are taken")]
        weight = self._staleness.weight(lag)
        told, against = list[Effect](), False
        try:
            self.add(header, body, weight, lag, seen, source=name)
        except AgainstOthersError as error:
            against = True
            self._against.add(peer.incarnation)
            stats.refused(peer, str(error))
            told = [self._answer(routing_id, header, "refused", str(error))]
        else:
            self._wait(_Waiting(routing_id, peer, header, weight, until), now)
        if self._recorder is None:
            return told
        return [*self._recorder.added(peer, header, body, weight, lag, against=against), *told]

    def _wait(self, one: _Waiting, now: float) -> None:
        """Note that a contribution is part of the next step."""
        if not self._waiting:
            self._deadline = now + self._step_rule.wait_seconds
        self._waiting.append(one)
        name = one.peer.incarnation
        self._unanswered[name] = self._unanswered.get(name, 0) + 1
        self._grown = True

    def step(self, now: float, *, heard_all: bool = True, whole: bool = True) -> list[Effect]:
        """Take a step when it is full, or once its waiting time is over.

        In the latter case either no message may be waiting, or the last reading must have added nothing to the step.
        """
        if not self._waiting:
            return []
        effects: list[Effect] = []
        if whole and not self.is_ready:
            if not self._is_late(now, heard_all):
                return []
            if self._step_rule.asks_who:
                sent = [*(one.peer.incarnation for one in self._waiting), *self._against]
                effects += self._discipline.late(sent, self._step_rule.wait_seconds, self._run.stats.counters.version)
        stats = self._run.stats
        waiting, self._waiting = self._waiting, []
        self._grown, self._stepped = False, True
        self._against.clear()
        self._deadline = math.inf
        scale = sum([one.weight for one in waiting]) / len(waiting)
        frames = stats.counters.frames + sum([one.header.steps for one in waiting])
        result = self.advance(scale=scale, frames=frames)
        stats.stepped(result.statistics, frames)
        if self._recorder is not None:
            effects += self._recorder.stepped(scale, frames, result)
        for number, one in enumerate(waiting):
            if number in result.left_out:
                continue
            one.peer.bad_in_a_row = 0
            stats.played(now, one.peer, one.header)
            stats.applied(one.peer, one.header.statistics if isinstance(one.header, Gradient) else {})
            if one.until > now:
                self._held.append(one)
                self._held_until = min(self._held_until, one.until)
            else:
                self._answered(one)
                effects.append(self._answer(one.routing_id, one.header, "applied"))
        for number, why in result.left_out.items():
            one = waiting[number]
            self._answered(one)
            if result.to_blame:
                effects += self._refuse(now, one.routing_id, one.peer, one.header, why)
            else:
                effects.append(self._answer(one.routing_id, one.header, "refused", why))
        if not result.to_blame:
            stats.not_finite()
            effects.append(Log("warning", f"{len(waiting)} {self.plural} together: {NOBODY}", key="step"))
        return effects

    def _is_late(self, now: float, heard_all: bool) -> bool:
        grown, self._grown = self._grown, False
        return now >= self._deadline and (heard_all or not grown)

    def answer(self, now: float) -> list[Effect]:
        if now < self._held_until:
            return []
        due = [one for one in self._held if one.until <= now]
        self._held = [one for one in self._held if one.until > now]
        self._held_until = min((one.until for one in self._held), default=math.inf)
        for one in due:
            self._answered(one)
        here = (one for one in due if self._run.peers.get(one.routing_id) is not None)
        return [self._answer(one.routing_id, one.header, "applied") for one in here]

    def named(self) -> list[str]:
        return [] if self._pace is None else self._pace.named()

    # -- what changes the weights; a replay of the record calls the same -----------------------------------------------

    def moments(self, header: Contribution) -> Moments:
        """Return the moments of a contribution's rollouts; raises CodecError for impossible ones."""
        counted = self._run.spec.counted
        if not counted and not header.moments:
            return NO_MOMENTS
        return Moments.merge_all(header.moments, counted, rollouts=header.count, steps=header.steps)

    def add(
        self, header: Contribution, body: Buffer, weight: float, lag: int, seen: Moments, *, source: str = ""
    ) -> None:
        """Add a contribution and the moments seen in it to the next step; raises CodecError, with nothing added."""
        self._add(header, body, weight, lag, source)
        self._seen.append((source, seen))

    def advance(self, *, scale: float, frames: int) -> StepResult:
        """Take the step to the next version with the contributions added since the last step."""
        result = self._collected.step(scale=scale, frames=frames)
        for number, (source, seen) in enumerate(self._seen):
            if seen.count and number not in result.left_out:
                self._collected.weights.merge(seen, source)
        self._seen.clear()
        self._collected.weights.end_version()
        return result

    # ------------------------------------------------------------------------------------------------------------------

    def _repeated(self, routing_id: bytes, peer: Peer, header: Contribution) -> list[Effect]:
        """Answer a repeated contribution, unless it waits for its step: an early answer would let the actor play on."""
        self._run.stats.duplicate()
        return [] if self._waits(routing_id, peer, header) else [self._answer(routing_id, header, "duplicate")]

    def _waits(self, routing_id: bytes, peer: Peer, header: Contribution) -> bool:
        """Whether it already waits for a step or its answer, which then goes to the connection that last sent it."""
        key = (peer.incarnation, header.sequence)
        for those in (self._waiting, self._held):
            for one in those:
                if (one.peer.incarnation, one.header.sequence) == key:
                    one.routing_id = routing_id
                    return True
        return False

    def _answered(self, one: _Waiting) -> None:
        """Count one unanswered contribution less for its actor."""
        name = one.peer.incarnation
        left = self._unanswered[name] - 1
        if left:
            self._unanswered[name] = left
        else:
            del self._unanswered[name]

    def _foreign(self, now: float, routing_id: bytes, peer: Peer) -> list[Effect]:
        """Refuse a contribution of another run or epoch; an honest actor sends one after each learner's restart."""
        self._run.stats.unknown(peer)
        text = f"this is run {self._run.spec.run}, epoch {self._run.spec.epoch}"
        return self._discipline.offended(now, routing_id, peer, text) or [refuse(routing_id, "unknown", text)]

    def _beyond_credit(
        self, now: float, routing_id: bytes, peer: Peer, header: Contribution, unanswered: int
    ) -> list[Effect]:
        peer.offences += 1
        text = (
            f"{unanswered} of its {self.plural} are not answered yet, its credit is {self._credit}: wait for an answer"
        )
        self._run.stats.refused(peer, f"{peer.hello.name} does not wait for answers: {text}")
        out = self._discipline.offended(now, routing_id, peer, text)
        return out or [self._answer(routing_id, header, "refused", text)]

    def _refuse(self, now: float, routing_id: bytes, peer: Peer, header: Contribution, why: str) -> list[Effect]:
        line = self._discipline.unusable(peer, header, why)
        self._run.stats.refused(peer, line.text)
        out = self._discipline.enough(now, routing_id, peer, why)
        return [line, *(out or [self._answer(routing_id, header, "refused", why)])]

    def _answer(self, routing_id: bytes, header: Contribution, verdict: Verdict, why: str = "") -> Send:
        message = Acknowledgement(
            sequence=header.sequence,
            verdict=verdict,
            version=self._run.stats.counters.version,
            credit=self._credit,
            actors=max(1, self._run.peers.actors),
            why=why,
        )
        return Send(routing_id, message)
