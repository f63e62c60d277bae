"""Which weights evaluators play, and what their reports decide: the run's evaluations, and its best checkpoint.

    pull -> waits until it is time -> checkpoint of the newest weights, which are given to the evaluator
         -> evaluation -> not the best so far: the next weights
                       -> the best so far: the same weights once more -> evaluation -> the best, if both together are

The highest of many evaluations owes something to luck. So no version becomes the best before a second evaluation, on
other episodes, has confirmed it; the figures of the best are those of both evaluations together.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass, field

import msgspec

from common.errors import CodecError
from common.rl.episode import Episode
from common.rl.episode_statistics import return_statistics
from common.run.status import EvaluationStatus
from common.wire.messages import Evaluation, Pull, Weights
from learner.bounded_dict import BoundedDict
from learner.effects import Effect, Log, RateCheckpoint, Send, refuse
from learner.exchange.header_check import check_episode
from learner.exclusion import MOST_OFFENCES, Discipline, exclude
from learner.parameters.publisher import WeightPublisher
from learner.peer import Peer
from learner.replay_window import Incarnation
from learner.run import Run

EVALUATORS = 64
"""Most evaluators that are remembered: those that were given weights last."""
UNCHANGED_SECONDS = 1.0
"""Seconds until the next look for weights newer than an evaluator has."""


@dataclass
class _Given:
    """The weights that an evaluator was given last."""

    version: int
    frames: int
    seconds: float
    saved: bool
    """Whether a checkpoint of these weights was begun, so that they can be kept."""
    lost: bool = False
    """Whether that checkpoint could not be written, or is not kept any more."""
    episodes: list[Episode] = field(default_factory=list)
    """Episodes of all reports on these weights."""
    reports: int = 1
    """Number of reports that are still to come."""


class Evaluations:
    def __init__(self, run: Run, publisher: WeightPublisher, now: float) -> None:
        self._run = run
        self._publisher = publisher
        self._section = run.spec.settings.evaluation
        self._discipline = Discipline(run.peers, run.stats.warn, "evaluations")
        self._waiting: dict[bytes, Pull] = {}
        """Pulls that are not answered yet, by routing id, the longest waiting first."""
        self._given: BoundedDict[Incarnation, _Given] = BoundedDict(EVALUATORS)
        self._due = now
        run.peers.on_leave.append(self._left)

    @property
    def deadline(self) -> float:
        """When `is_due` may next be true; infinite: not before the next message."""
        return self._due if self._waiting else math.inf

    def under_way(self) -> Collection[int]:
        """Return the versions that are being evaluated, whose checkpoints are to be kept; no others are from now on.

        Those of evaluators that have gone are among the others: killed ones would otherwise fill the disk.
        """
        here = self._here()
        for incarnation, given in self._given.items():
            given.lost |= given.reports > 0 and incarnation not in here
        return {given.version for given in self._given.values() if given.reports and not given.lost}

    def _left(self, routing_id: bytes) -> None:
        self._waiting.pop(routing_id, None)

    def asked(self, now: float, routing_id: bytes, peer: Peer, pull: Pull) -> list[Effect]:
        """Take the pull of an evaluator that has nothing to do; it may have to wait for its answer.

        On a slow link it asks again while the weights are under way. Others would then be expected to be evaluated.
        One that has the weights and still owes a report is to play them: once more, or because the report was lost.
        """
        given = self._given.get(peer.incarnation)
        if given is not None and given.reports and not pull.whole and pull.version == given.version:
            return [Send(routing_id, Weights(version=given.version, epoch=self._run.spec.epoch))]
        if not self._publisher.under_way(now, routing_id, pull):
            if given is not None and given.reports and (pull.whole or pull.version != given.version):
                del self._given[peer.incarnation]  # it never had them
            self._waiting[routing_id] = pull
        return []

    def is_due(self, now: float) -> bool:
        """Whether an evaluator waits for weights, nobody has had the newest ones, and it is time."""
        if now < self.deadline:
            return False
        if self._next() is None:
            self._due = now + UNCHANGED_SECONDS
            return False
        return True

    def give(self, now: float, *, saved: bool) -> list[Effect]:
        """Give the newest weights to the evaluator that has waited longest; to be called only if `is_due`.

        `saved`: a checkpoint of these weights was begun.
        """
        routing_id = self._next()
        peer = None if routing_id is None else self._run.peers.get(routing_id)
        if routing_id is None or peer is None:
            return []
        del self._waiting[routing_id]
        self._due = now + self._section.every_seconds
        version, body = self._publisher.for_evaluation(now, routing_id)
        stats = self._run.stats
        self._given[peer.incarnation] = _Given(version, stats.counters.frames, stats.seconds(now), saved)
        return [Send(routing_id, Weights(version=version, epoch=self._run.spec.epoch), body)]

    def _next(self) -> bytes | None:
        """Return who has waited longest; None: nobody waits, or the newest weights are judged, or will be."""
        here = self._here()
        newest = self._of_newest()
        if any(not given.reports or incarnation in here for incarnation, given in newest):
            return None
        return next(iter(self._waiting), None)

    @property
    def awaited(self) -> bool:
        """Whether the newest weights are not judged, and an evaluator is here that may judge them."""
        return bool(self._here()) and all(given.reports for _, given in self._of_newest())

    def hurry(self, now: float) -> None:
        """The newest weights are due at once."""
        self._due = now

    def _here(self) -> set[Incarnation]:
        return {peer.incarnation for _, peer in self._run.peers.role("evaluator")}

    def _of_newest(self) -> list[tuple[Incarnation, _Given]]:
        newest = self._run.stats.counters.version
        return [(incarnation, given) for incarnation, given in self._given.items() if given.version == newest]

    def not_saved(self, version: int) -> None:
        """Note that the checkpoint of this version could not be written."""
        for given in self._given.values():
            if given.version == version:
                given.lost = True
        counters = self._run.stats.counters
        if counters.best_evaluation is not None and counters.best_evaluation.version == version:
            counters.best_evaluation = None

    def reported(self, now: float, routing_id: bytes, peer: Peer, message: Evaluation) -> list[Effect]:
        """Check an evaluation, which comes from another host, and judge it."""
        spec = self._run.spec
        if message.run != spec.run or message.epoch != spec.epoch:
            return self._foreign(now, routing_id, peer)
        given = self._given.get(peer.incarnation)
        if given is None or given.version != message.version or not given.reports:
            return self._refuse(now, routing_id, peer, f"of version {message.version}, which it was not to play now")
        try:
            self._check(message.episodes)
        except CodecError as error:
            return self._refuse(now, routing_id, peer, str(error))
        peer.bad_in_a_row = 0
        self._run.peers.took_part(peer)
        given.reports -= 1
        given.episodes += message.episodes
        return self._judge(given)

    def _judge(self, given: _Given) -> list[Effect]:
        figures = return_statistics([one.episode_return for one in given.episodes])
        evaluated = EvaluationStatus(
            **msgspec.structs.asdict(figures),
            version=given.version,
            frames=given.frames,
            seconds=given.seconds,
        )
        counters = self._run.stats.counters
        counters.evaluations += 1
        counters.evaluation = evaluated
        best = counters.best_evaluation
        text = f"evaluation of version {given.version}: {evaluated}"
        if given.lost or (best is not None and evaluated.mean <= best.mean):
            return [Log("info", text)]
        if len(given.episodes) <= self._section.episodes:
            given.reports = 1
            return [Log("info", f"{text}, the best so far if another one confirms it")]
        counters.best_evaluation = evaluated
        lines: list[Effect] = [Log("info", f"{text}, the best so far")]
        return [*lines, RateCheckpoint(given.version, evaluated)] if given.saved else lines

    def _check(self, episodes: list[Episode]) -> None:
        """Raise CodecError if an evaluator cannot have played these episodes."""
        if len(episodes) != self._section.episodes:
            raise CodecError(f"with {len(episodes)} episodes, not evaluation.episodes = {self._section.episodes}")
        for one in episodes:
            check_episode(one, self._run.spec.longest_episode)

    def _foreign(self, now: float, routing_id: bytes, peer: Peer) -> list[Effect]:
        """Refuse an evaluation of another run or epoch; an honest evaluator sends one after each learner's restart."""
        spec = self._run.spec
        self._run.stats.unknown(peer)
        if peer.offences >= MOST_OFFENCES:
            return exclude(
                self._run.peers,
                self._run.stats.warn,
                now,
                routing_id,
                peer,
                f"{MOST_OFFENCES} evaluations of another run or epoch",
            )
        return [refuse(routing_id, "unknown", f"this is run {spec.run}, epoch {spec.epoch}")]

    def _refuse(self, now: float, routing_id: bytes, peer: Peer, why: str) -> list[Effect]:
        peer.refused += 1
        peer.bad_in_a_row += 1
        text = f"{peer.hello.name} sent an evaluation that cannot be used: {why}"
        self._run.stats.warn(text)
        line = Log("warning", text, key=f"bad {peer.hello.name}")
        return [line, *self._discipline.enough(now, routing_id, peer, why)]
