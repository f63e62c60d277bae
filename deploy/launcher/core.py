"""What the launcher decides: orders, ended actors and time in; starts, stops and reports out.

An actor that ends by itself is started again, later each time. Two things are hopeless: an actor that says its
configuration cannot be, and failures in a row during which no actor lived. Then no more are started on that host, and
the learner is told why, until it begins another epoch (which may hold other settings).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from common.errors import EXIT_DONE
from common.wire.messages import MAX_TEXT, AnyMessage, FleetOrder, FleetReport, Stop, Welcome
from deploy.backends.base import Condition, Ended
from deploy.launcher.slot import GRACE_SECONDS, Slot, StartActor, StopActor
from deploy.launcher.verdict import Verdict

LEAVE_SECONDS = 3.0
"""After a final stop, in which actors leave by themselves: the learner told them too."""
ABANDON_SECONDS = 1.0
"""After SIGKILL: a process that is still there hangs in the kernel, and is not waited for."""

Effect = StartActor | StopActor | FleetReport


@dataclass
class _Reporter:
    """A report when it changed, and every heartbeat."""

    interval: float = math.inf
    deadline: float = math.inf
    last: FleetReport | None = None

    def welcomed(self, now: float, interval: float) -> None:
        """The learner knows nothing of this launcher yet."""
        self.interval, self.deadline, self.last = interval, now, None

    def act(self, now: float, report: FleetReport) -> FleetReport | None:
        """`report`, if it is to be sent."""
        if report == self.last and now < self.deadline:
            return None
        self.last, self.deadline = report, now + self.interval
        return report


class LauncherCore:
    """State of a launcher. The caller passes on what happens, then asks `tick` what to do."""

    def __init__(self, slots: int, warm: int = 0, hosts: Sequence[str] = ()) -> None:
        """At most `slots` actors, those on their way out included; `warm` of them before the first order.

        Actors started early load their libraries while the learner loads its own. `hosts`: of each slot, where there
        are several.
        """
        self.slots = slots
        self.wanted = min(warm, slots)
        self.ordered = False
        """Whether the learner has said how many it wants."""
        self.stopping = False
        self._slots = [Slot(number, hosts[number] if hosts else "") for number in range(slots)]
        self._verdicts = {slot.host: Verdict(slot.host) for slot in self._slots}
        self._condition = Condition()
        self._reporter = _Reporter()
        self._failed = 0
        self._clamped = ""
        self._epoch: tuple[str, int] | None = None
        self._abandon_at = math.inf
        self._detached = False

    def handle(self, now: float, message: AnyMessage) -> None:
        """Takes note of a message from the learner; messages for others are nothing to it."""
        match message:
            case Welcome():
                self._welcomed(now, message)
            case FleetOrder() if not self.stopping:
                self.ordered = True
                self.wanted = min(message.actors, self.slots)
                beyond = message.actors > self.slots
                self._clamped = f"{message.actors} actors ordered, {self.slots} slots here" if beyond else ""
            case Stop(final=True):
                self.stop(now, LEAVE_SECONDS)
            case _:
                pass

    def _welcomed(self, now: float, welcome: Welcome) -> None:
        epoch = (welcome.run, welcome.epoch)
        if epoch != self._epoch and self._epoch is not None:
            self._verdicts = {host: Verdict(host) for host in self._verdicts}
        self._epoch = epoch
        self._reporter.welcomed(now, welcome.heartbeat_seconds)

    def observe(self, now: float, condition: Condition) -> None:
        """How the way to start actors stands; an actor that is not at work yet has not begun to live."""
        self._condition = condition
        for number in condition.starting:
            self._slots[number].started = now

    def found(self, now: float, number: int) -> None:
        """In this slot an actor runs that was not started from here; before the first order all found are wanted."""
        slot = self._slots[number]
        if slot.alive:
            return
        slot.adopt(now)
        slot.planned = True
        if self.stopping:
            slot.dismiss(now)
        elif not self.ordered:
            self.wanted = max(self.wanted, sum(slot.planned for slot in self._slots))

    def ended(self, now: float, ended: Ended) -> bool:
        """Takes note of an actor's end; whether that was a failure (exit 0 is not: its learner sent it away)."""
        slot = self._slots[ended.slot]
        slot.alive = False
        if not slot.planned:
            return False
        slot.ended(now)
        if ended.exit_code == EXIT_DONE:
            return False
        self._failed += 1
        alive = (other for other in self._slots if other.alive and other.host == slot.host)
        longest = max((now - other.started for other in alive), default=0.0)
        self._verdicts[slot.host].judge(ended, now - slot.started, longest)
        return True

    def stop(self, now: float, patience: float = 0.0) -> None:
        """The launcher is to end: actors have `patience` seconds to leave, then are asked, then killed."""
        self.stopping, self.wanted = True, 0
        for slot in self._slots:
            slot.dismiss(now + patience)
        self._abandon_at = min(self._abandon_at, now + patience + GRACE_SECONDS + ABANDON_SECONDS)

    def detach(self) -> None:
        """The launcher is to end, and its actors to live on: another one will find them."""
        self.stopping = self._detached = True

    def tick(self, now: float) -> list[Effect]:
        """What is to be done now."""
        if self._detached:
            return []
        self._plan(now)
        effects: list[Effect] = [effect for slot in self._slots if (effect := slot.act(now)) is not None]
        report = self._reporter.act(now, self.report())
        return effects if report is None else [*effects, report]

    def _plan(self, now: float) -> None:
        """Makes as many slots planned as actors are wanted."""
        for slot in self._slots:
            slot.planned = slot.planned and (slot.alive or self._usable(slot))
        planned = [slot for slot in self._slots if slot.planned]
        missing = self.wanted - len(planned)
        if missing < 0:
            # What does not run costs nothing to give up; of the others the newest has learnt least.
            planned.sort(key=lambda slot: (slot.alive, -slot.started, -slot.number))
            for slot in planned[:-missing]:
                slot.dismiss(now)
        else:
            free = [slot for slot in self._slots if not slot.planned and not slot.alive and self._usable(slot)]
            for slot in sorted(free, key=lambda slot: slot.due)[:missing]:
                slot.planned = True

    def _usable(self, slot: Slot) -> bool:
        ready = self._condition.ready
        return not self._verdicts[slot.host].gave_up and (ready is None or slot.number in ready)

    def report(self) -> FleetReport:
        """What the learner is told. Running: actors at work; starting: asked for, or waiting to be started again.

        Slots: those in which an actor is or could be, so that what finds no place here can be ordered elsewhere.
        """
        alive = {slot.number for slot in self._slots if slot.alive}
        starting = alive & self._condition.starting
        waiting = sum(slot.planned and not slot.alive for slot in self._slots)
        settled = self._condition.settled
        verdicts = [verdict for verdict in self._verdicts.values() if verdict.gave_up]
        whys = (*(verdict.why for verdict in verdicts), self._condition.trouble, self._clamped)
        return FleetReport(
            slots=sum(slot.alive or self._usable(slot) for slot in self._slots) if settled else self.slots,
            running=len(alive - starting),
            starting=len(starting) + waiting,
            failed=self._failed,
            gave_up=self.gave_up,
            exit_code=verdicts[0].exit_code if self.gave_up else EXIT_DONE,
            why="; ".join(filter(None, whys))[:MAX_TEXT],
        )

    @property
    def gave_up(self) -> bool:
        """No more actors are started anywhere; those that run go on."""
        return all(verdict.gave_up for verdict in self._verdicts.values())

    @property
    def deadline(self) -> float:
        """When `tick` has something to do next."""
        return min([self._reporter.deadline, self._abandon_at, *(slot.deadline for slot in self._slots)])

    def finished(self, now: float) -> bool:
        """Stopped, and no actor left that is worth waiting for."""
        gone = self._detached or now >= self._abandon_at or not any(slot.alive for slot in self._slots)
        return self.stopping and gone
