"""The learner's side of the protocol, without sockets, clocks or files: messages and time in, effects out.

    hello -> welcome -> gradient, trajectory or observations -> optimizer step -> acknowledgement or actions

The core hands each message to the part that handles it: a hello to `learner.admission`, contributions to the exchange
(`learner.exchange`), which turns them into optimizer steps, a pull to `learner.parameters.publisher`, a launcher's
report to `learner.fleet`. The core itself does what is due at a time: metrics, checkpoints, the expiry of silent peers,
and the end of the run.
"""

import math
from collections.abc import Collection, Mapping

import msgspec

from common.errors import ProtocolError, WireError
from common.host.service.logs import cut
from common.run.folder import Checkpoint
from common.wire.frames import Buffer
from common.wire.messages import (
    AnyMessage,
    Contribution,
    Evaluation,
    FleetReport,
    Goodbye,
    Halt,
    Heartbeat,
    Hello,
    Inspect,
    Observe,
    Pull,
    Role,
    Save,
    Scale,
    SiteReport,
    Stop,
)
from common.wire.protocol import may_send
from learner.admission import Admission
from learner.attention import Attention
from learner.checkpoints import Checkpoints
from learner.connections import Progress
from learner.effects import (
    Effect,
    Ending,
    Finish,
    Log,
    Send,
    ShowStatus,
    WriteMetrics,
    refuse,
    refuse_noise,
    refuse_stranger,
)
from learner.evaluations import Evaluations
from learner.exchange.base import Exchange
from learner.exchange.rounds import Arrived, Rounds
from learner.fleet import Fleet
from learner.health import Health
from learner.last_evaluation import LEAVE_FIRST, LastEvaluation
from learner.limits import ending
from learner.orders import Orders
from learner.parameters.publisher import WeightPublisher
from learner.parameters.weights import Weights
from learner.peer import Peer
from learner.reports import Reports
from learner.return_to_best import ReturnToBest
from learner.run import Run

RECORD_SECONDS = 1.0
"""Most seconds between two rows of metrics, and between two searches for silent peers."""
FIRST_ROWS = 20
"""Rows in a run's first second. Later ones are as large a part of its age apart, up to RECORD_SECONDS, so that a short
run has a curve."""
TOLD_STALL_SECONDS = 10.0
"""The operator is told of a stall, in which the learner did not listen, that lasts at least this long."""
NOT_FINITE = "the weights are no longer finite: try a smaller optimizer.learning_rate or algorithm.max_grad_norm"

ONE_LEFT = "an actor has left, and reproducible = true needs the same ones from beginning to end: begin anew"


class LearnerCore:
    def __init__(self, run: Run, weights: Weights, exchange: Exchange, now: float) -> None:
        self.run = run
        self.max_bytes = run.spec.header_bytes + exchange.max_bytes
        """Longest message, header and body together."""
        self._settings = run.spec.settings
        self._weights = weights
        self._exchange = exchange
        self._publisher = WeightPublisher(run, weights, exchange.weights_go_out, now)
        self._evaluations = Evaluations(run, self._publisher, now)
        self._health = Health()
        self._return_to_best = ReturnToBest(run, weights, exchange, now)
        self._reports = Reports(run)
        self._fleet = Fleet(run)
        self._orders = Orders(run, self._fleet)
        self._checkpoints = Checkpoints(run, weights, self._evaluations, self._orders)
        self.admission = Admission(run, exchange, self._publisher, self._fleet)
        self._rounds = Rounds(self._settings.scaling.minimum) if self._settings.reproducible else None
        self._attention = Attention(now)
        self._record_due = now
        self._scale_due = now
        self._last_evaluation = LastEvaluation(run, self._evaluations, self._checkpoints)
        self._finished = False
        self._last_word = Stop(reason="", final=False)

    @property
    def deadline(self) -> float:
        """When `answer`, `flush` or `tick` next has something to do."""
        if self._last_evaluation.ending is not None:
            return min(self._last_evaluation.deadline, self._record_due)
        parts = min(self._exchange.deadline, self._publisher.deadline)
        giving = math.inf if self.run.saves.writing else self._evaluations.deadline
        return min(parts, self._record_due, self.run.saves.deadline, self._scale_due, giving)

    @property
    def gather_seconds(self) -> float:
        """Least seconds between two reads when no message is waiting, so that several messages are read at once."""
        return self._exchange.gather_seconds

    def begin(self) -> list[Effect]:
        """Start the exchange; called once, before the first message."""
        return self._exchange.begin()

    def handle(
        self,
        now: float,
        routing_id: bytes,
        message: AnyMessage,
        body: Buffer | None,
        key_name: str = "",
        address: str = "",
    ) -> list[Effect]:
        """Handle one message from one peer.

        `key_name`: the name of the peer's key, empty without keys; `address`: where a hello came from.
        """
        if self._finished:
            return self._dismiss(routing_id, message)
        if isinstance(message, Hello):
            if not self._takes(message.role):
                return self._dismiss(routing_id, message)
            return self.admission.hello(now, routing_id, message, key_name, address)
        peer = self.run.peers.hears(now, routing_id, key_name)
        if peer is None:
            return [*refuse_stranger(routing_id, message)]
        if not self._takes(peer.hello.role):
            return self._dismiss(routing_id, message)
        if not may_send(peer.hello.role, message):
            return [refuse(routing_id, "role", f"a learner takes no such message from a {peer.hello.role}")]
        match message:
            case Contribution() if self._rounds is not None:
                return self._in_order(now, self._rounds, Arrived(routing_id, peer, message, body))
            case Contribution() | Observe():
                effects = self._exchange.handle(now, routing_id, peer, message, body)
                effects = self._publisher.ahead_of_answers(now, effects)
                return effects + self.flush(now) if self._exchange.is_ready else effects
            case Pull():
                if peer.hello.role == "evaluator":
                    return self._evaluations.asked(now, routing_id, peer, message)
                return self._publisher.pulled(now, routing_id, message)
            case Evaluation():
                return self._evaluations.reported(now, routing_id, peer, message)
            case Heartbeat():
                return self._heartbeat(now, routing_id, peer, message)
            case FleetReport():
                return self._fleet.reported(now, routing_id, peer, message)
            case SiteReport():
                if self.run.peers.site_reported(peer, message):
                    self.run.stats.joined(self.run.peers.actors)
                return []
            case Inspect():
                return self._reports.asked(now, routing_id, peer)
            case Halt() | Save() | Scale():
                return self._orders.given(now, routing_id, peer, message)
            case Goodbye():
                return self.admission.leave(now, routing_id, "info", cut(f"left: {message.reason}"))
            case _:
                raise ValueError(f"{type(message).__name__}: peers may send it, and nothing here takes it")

    def _in_order(self, now: float, rounds: Rounds, arrived: Arrived) -> list[Effect]:
        """Take a contribution of a reproducible run, which makes one step a round and ends right after its last."""
        effects: list[Effect] = []
        for one in rounds.add(arrived):
            effects += self._exchange.handle(now, *one)
        effects = self._publisher.ahead_of_answers(now, effects)
        if not self._exchange.is_ready:
            return effects
        effects += self.flush(now)
        over = ending(self.run.stats, now, self._settings.limits)
        return effects if over is None else effects + self._end(now, *over)

    def malformed(self, routing_id: bytes, error: WireError) -> list[Effect]:
        """Answer bytes that are not a message."""
        peer = self.run.peers.get(routing_id)
        effects = refuse_noise(routing_id, error, stranger=peer is None)
        if peer is None or peer.hello.role != "operator" or isinstance(error, ProtocolError):
            return effects
        return [refuse(routing_id, "order", str(error)), *effects]

    def progress(self, progress: Mapping[bytes, Progress]) -> None:
        """Note on which connections bytes are moving, by routing id: a slow link may need minutes for one message."""
        known = {routing_id: one for routing_id, one in progress.items() if self.run.peers.get(routing_id)}
        self.run.peers.alive({routing_id: one.moved for routing_id, one in known.items()})
        self._publisher.progress(known)

    def answer(self, now: float) -> list[Effect]:
        """Return the answers that need no optimizer step; send them before `flush`, which may take long."""
        return self._exchange.answer(now) if self._learning else []

    def flush(self, now: float, *, heard_all: bool = True, whole: bool = True) -> list[Effect]:
        """Take an optimizer step if it is time, answer its contributions, and broadcast the weights if that is due.

        `heard_all`, `whole`: as for `Exchange.step`.
        """
        if not self._learning:
            return []
        effects = self._exchange.step(now, heard_all=heard_all, whole=whole)
        return self._publisher.ahead_of_answers(now, effects) + self._publish(now)

    def _publish(self, now: float) -> list[Effect]:
        playing = len(self.run.peers.playing)  # who only says that it is there does not make weights rarer for others
        return self._publisher.publish(now, playing, min(playing, self.run.peers.near_senders))

    def tick(self, now: float, *, heard_all: bool = True) -> list[Effect]:
        """Do everything that is due: broadcast, expiry, scaling, metrics, checkpoint, and the end of the run.

        `heard_all`: no message is waiting to be read.
        """
        if self._finished:  # a reproducible run ends while messages are read, before this is called
            return []
        if self._last_evaluation.ending is not None:
            return self._attend(now, heard_all) + self._evaluate_last(now, self._last_evaluation.ending)
        effects = self._publish(now) + self._attend(now, heard_all)
        if now >= self._scale_due:
            self._scale_due = now + self._settings.scaling.interval_seconds
            effects += self._fleet.decide(now)
        finite = True
        if now >= self._record_due:
            self._record_due = now + min(RECORD_SECONDS, max(1.0, self.run.stats.seconds(now)) / FIRST_ROWS)
            finite = self._weights.finite
            effects += self._expire(now) + self._record(now, finite)
        giving = not self.run.saves.writing and self._evaluations.is_due(now)
        saving = (giving and self._checkpoints.keep_evaluated) or self._checkpoints.is_due(now)
        over = self._over(now, finite and (not saving or self._weights.may_be_saved))
        if over is not None:
            return effects + self._end(now, *over)
        if saving:
            effects.append(self._checkpoints.begin(now))
        if giving:
            effects += self._evaluations.give(now, saved=saving)
        return effects

    def _record(self, now: float, finite: bool) -> list[Effect]:
        """Diagnose the run and write its row of metrics; neither if the weights are not finite."""
        if self._rounds is None:  # not in a reproducible run, where no clock may decide whose episodes count
            self.run.stats.window.look(now, self.run.peers.sources)
        if not finite:
            return []
        told = self._health.diagnose(now, self.run.stats.vital_signs()) + self._exchange.named()
        effects: list[Effect] = [Log("warning", text) for text in self.run.stats.diagnosed(told)]
        effects.append(self._row(now))
        return effects + self._return_to_best.look(now, fallen=self._health.fallen)

    def _over(self, now: float, finite: bool) -> tuple[Ending, str] | None:
        """Return how and why the run ends now; None: it goes on."""
        if not finite:
            return "failed", NOT_FINITE
        if self._rounds is not None and self.run.peers.actors < self.run.peers.joined:
            return "failed", ONE_LEFT
        return ending(self.run.stats, now, self._settings.limits) or self._orders.ending

    def saved(self, now: float, version: int, error: str, path: str = "") -> list[Effect]:
        """As `Checkpoints.saved`."""
        return self._checkpoints.saved(now, version, error, path)

    def best_read(self, now: float, checkpoint: Checkpoint | None, error: str) -> list[Effect]:
        """Take the best checkpoint, as `ReadBest` requested; None if it could not be read, and `error` says why."""
        if not self._learning:
            return []
        effects = self.flush(now, whole=False)  # waiting contributions were judged against the present weights
        return effects + self._return_to_best.restore(now, checkpoint, error)

    def _dismiss(self, routing_id: bytes, message: AnyMessage) -> list[Effect]:
        """Answer a message after the end: a peer that says goodbye knows of it, one that says hello does not.

        After the end of the run, `remind` tells the others; after that of the learning, the answer does.
        """
        match message:
            case Goodbye():
                self.run.peers.leave(routing_id)
                return []
            case Halt() | Save() | Scale():
                return [refuse(routing_id, "order", "the run is over, or the learner is ending")]
            case Hello():
                return [Send(routing_id, self._last_word)]
            case _:
                return [] if self._finished else [Send(routing_id, self._last_word)]

    def remind(self) -> list[Effect]:
        """Send the stop again to all peers that have not left: a connection may have been down the first time."""
        return [Send(routing_id, self._last_word) for routing_id in self.run.peers.everyone()]

    @property
    def present(self) -> int:
        """Number of actors, relays, launchers and evaluators that have not left."""
        return self.run.peers.senders + sum(len(self.run.peers.role(one)) for one in ("launcher", "evaluator"))

    def stop(self, now: float) -> list[Effect]:
        """End this epoch because of a signal; the peers are told to expect the learner back.

        A run that only waits for its last evaluation ends without it.
        """
        return self._finish(now, *(self._last_evaluation.ending or ("stopped", "stopped by a signal")))

    def revoke(self, now: float, key_names: Collection[str]) -> list[Effect]:
        text = "was cut off: its key is not allowed any more"
        return self.admission.leave_all(now, self.run.peers.with_keys(key_names), "warning", text)

    @property
    def _learning(self) -> bool:
        return not self._finished and self._last_evaluation.ending is None

    def _takes(self, role: Role) -> bool:
        """Whether peers of this role still have something to do here."""
        return self._learning or role not in LEAVE_FIRST

    def _end(self, now: float, ending: Ending, reason: str) -> list[Effect]:
        """End the run, or its learning, if its last weights are evaluated before it ends."""
        if not self._weights.may_be_saved or not self._last_evaluation.is_wanted(ending):
            return self._finish(now, ending, reason)
        effects = self._last_evaluation.begin(now, ending, reason, self._row(now))
        self._last_word = Stop(reason=reason, final=True)
        effects += [Send(one, self._last_word) for role in LEAVE_FIRST for one, _ in self.run.peers.role(role)]
        return effects

    def _evaluate_last(self, now: float, ending: tuple[Ending, str]) -> list[Effect]:
        """Wait for the last evaluation, and then end the run; an operator may order the end at once."""
        effects = self._last_evaluation.tick(now)
        if now >= self._record_due:
            self._record_due = now + RECORD_SECONDS
            effects += [*self._expire(now), ShowStatus()]
        if self._last_evaluation.is_over(now) or self._orders.ending is not None:
            effects += self._finish(now, *ending)
        return effects

    def _finish(self, now: float, ending: Ending, reason: str) -> list[Effect]:
        """Tell every peer that the run ends, and send observers a last status.

        A failed run writes no last row of metrics and no last checkpoint.
        """
        if not self._weights.may_be_saved:
            ending, reason = "failed", NOT_FINITE
        final = ending != "stopped"
        self._finished = True
        self.run.stats.state = ending
        told = reason if final else "the learner was stopped; it may come back"
        status = self._reports.fresh(now)
        effects: list[Effect] = [Send(routing_id, status) for routing_id, _ in self.run.peers.role("observer")]
        self._last_word = Stop(reason=told, final=final)
        effects += self.remind()
        if ending != "failed":
            row = self._row(now) if self._last_evaluation.ending is None else self._last_evaluation.row()
            effects += [row, self._checkpoints.begin(now)]
        else:
            effects += self._orders.not_saved(reason)
        result = self.run.status(now, whole_run=True)
        digest = self._weights.digest if ending != "failed" else ""
        return [*effects, Finish(ending, reason, msgspec.structs.replace(result, weights=digest))]

    def _row(self, now: float) -> WriteMetrics:
        optimizer = self._weights.optimizer
        steps = {"learning_rate": optimizer.learning_rate * optimizer.factor, "step_size": optimizer.step_size}
        return WriteMetrics(self.run.metrics(now) | steps)

    def _heartbeat(self, now: float, routing_id: bytes, peer: Peer, message: Heartbeat) -> list[Effect]:
        effects: list[Effect] = [Send(routing_id, Heartbeat())]
        if text := peer.tells(now, message):
            self.run.stats.warn(text)
            effects.append(Log("warning", text, key=f"error {peer.hello.name}"))
        return effects

    def _attend(self, now: float, heard_all: bool) -> list[Effect]:
        stall = self._attention.look(now, heard_all)
        self.run.peers.excuse(now, stall)
        if stall < TOLD_STALL_SECONDS:
            return []
        text = f"the learner stood still for {stall:.0f} s (a large batch, a slow disk, or a process that was stopped)"
        self.run.stats.warn(text)
        return [Log("warning", text, key="stall", own=True)]

    def _expire(self, now: float) -> list[Effect]:
        seconds = self._settings.exchange.expiry_seconds
        effects: list[Effect] = []
        for routing_id, peer in self.run.peers.silent(self._attention.heard_until(seconds), seconds):
            self._fleet.fell_silent(peer)
            text = f"has been silent for {seconds * peer.patience:g} s: it is removed"
            effects += self.admission.leave(now, routing_id, "warning", text)
        return effects
