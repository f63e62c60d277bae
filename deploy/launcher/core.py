"""What the launcher decides: orders, ended actors and time in; starts, stops and reports out.

An actor that ends by itself is started again, later each time. Two things are hopeless: an actor that says its
configuration cannot be, and failures in a row during which no actor lived. Then no more are started, and the learner
is told why, until it begins another epoch (which may hold other settings).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from common.errors import EXIT_CONFIGURATION, EXIT_DONE, EXIT_USAGE
from common.messages import AnyMessage, FleetOrder, FleetReport, Stop, Welcome
from deploy.backends.base import Ended

FIRST_BACKOFF_SECONDS = 0.5
LONGEST_BACKOFF_SECONDS = 30.0
STEADY_SECONDS = 60.0
"""An actor that ran so long starts over with the first back-off, and proves that actors can run here: on a very busy
machine half of it goes into loading torch."""
MOST_FAILURES = 5
"""In a row, without that proof."""
HOPELESS = frozenset({EXIT_USAGE, EXIT_CONFIGURATION})
LEAVE_SECONDS = 3.0
"""After a final stop, in which actors leave by themselves: the learner told them too."""
GRACE_SECONDS = 3.0
"""From SIGTERM to SIGKILL."""
ABANDON_SECONDS = 1.0
"""After SIGKILL: a process that is still there hangs in the kernel, and is not waited for."""
_WHY_CHARACTERS = 1000


@dataclass(frozen=True)
class StartActor:
    """Start the actor of this slot."""

    slot: int


@dataclass(frozen=True)
class StopActor:
    """Ask the actor of this slot to leave; `kill`: it did not."""

    slot: int
    kill: bool = False


Effect = StartActor | StopActor | FleetReport


@dataclass
class _Slot:
    """Place for one actor. Planned: one is wanted here; alive and not planned: it is on its way out."""

    number: int
    planned: bool = False
    alive: bool = False
    started: float = -math.inf
    due: float = -math.inf
    """Not started before."""
    setbacks: int = 0
    """Times it ended by itself since it last ran steadily."""
    stop_at: float = math.inf
    kill_at: float = math.inf
    asked: bool = False
    killed: bool = False

    def start(self, now: float) -> StartActor:
        self.alive, self.started = True, now
        self.stop_at = self.kill_at = math.inf
        self.asked = self.killed = False
        return StartActor(self.number)

    def dismiss(self, at: float) -> None:
        """Not wanted any more: asked to leave at `at`, or earlier if it was to be asked earlier."""
        self.planned = False
        self.stop_at = min(self.stop_at, at)
        self.kill_at = min(self.kill_at, at + GRACE_SECONDS)

    def ended(self, now: float) -> None:
        """Started again after 0.5 s, then 1, 2, 4, ... 30 s."""
        if now - self.started >= STEADY_SECONDS:
            self.setbacks = 0
        self.due = now + min(FIRST_BACKOFF_SECONDS * 2 ** min(self.setbacks, 16), LONGEST_BACKOFF_SECONDS)
        self.setbacks += 1

    def act(self, now: float) -> Effect | None:
        """What this slot needs now, if anything."""
        if self.planned:
            return self.start(now) if not self.alive and now >= self.due else None
        if self.alive and not self.killed and now >= self.kill_at:
            self.asked = self.killed = True
            return StopActor(self.number, kill=True)
        if self.alive and not self.asked and now >= self.stop_at:
            self.asked = True
            return StopActor(self.number)
        return None

    @property
    def deadline(self) -> float:
        """When `act` has something to do next."""
        if self.planned:
            return math.inf if self.alive else self.due
        if not self.alive or self.killed:
            return math.inf
        return self.kill_at if self.asked else self.stop_at


@dataclass
class _Verdict:
    """Whether starting actors is hopeless, and why."""

    failures: int = 0
    """In a row, while no actor ran steadily."""
    gave_up: bool = False
    exit_code: int = EXIT_DONE
    why: str = ""

    def judge(self, ended: Ended, lived: float, longest: float) -> None:
        """A failure after `lived` seconds, when the actor longest alive has run for `longest` seconds."""
        self.failures = 0 if max(lived, longest) >= STEADY_SECONDS else self.failures + 1
        if self.gave_up or (ended.exit_code not in HOPELESS and self.failures < MOST_FAILURES):
            return
        last_word = ended.last_words.rstrip().rpartition("\n")[2]
        times = "" if ended.exit_code in HOPELESS else f"{self.failures} failures in a row; "
        what = f"{times}the actor in slot {ended.slot} ended with exit code {ended.exit_code} after {lived:.1f} s"
        self.gave_up, self.exit_code = True, ended.exit_code
        self.why = f"{what}: {last_word[:_WHY_CHARACTERS] or 'it said nothing'}"


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

    def __init__(self, slots: int, warm: int = 0) -> None:
        """At most `slots` actors, those on their way out included; `warm` of them before the first order.

        Actors started early load their libraries while the learner loads its own.
        """
        self.slots = slots
        self.wanted = min(warm, slots)
        self.stopping = False
        self._slots = [_Slot(number) for number in range(slots)]
        self._verdict = _Verdict()
        self._reporter = _Reporter()
        self._failed = 0
        self._clamped = ""
        self._epoch: tuple[str, int] | None = None
        self._abandon_at = math.inf

    def handle(self, now: float, message: AnyMessage) -> None:
        """Takes note of a message from the learner; messages for others are nothing to it."""
        match message:
            case Welcome():
                self._welcomed(now, message)
            case FleetOrder() if not self.stopping:
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
            self._verdict = _Verdict()
        self._epoch = epoch
        self._reporter.welcomed(now, welcome.heartbeat_seconds)

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
        longest = max((now - other.started for other in self._slots if other.alive), default=0.0)
        self._verdict.judge(ended, now - slot.started, longest)
        return True

    def stop(self, now: float, patience: float = 0.0) -> None:
        """The launcher is to end: actors have `patience` seconds to leave, then are asked, then killed."""
        self.stopping, self.wanted = True, 0
        for slot in self._slots:
            slot.dismiss(now + patience)
        self._abandon_at = min(self._abandon_at, now + patience + GRACE_SECONDS + ABANDON_SECONDS)

    def tick(self, now: float) -> list[Effect]:
        """What is to be done now."""
        self._plan(now)
        effects = [effect for slot in self._slots if (effect := slot.act(now)) is not None]
        report = self._reporter.act(now, self.report())
        return effects if report is None else [*effects, report]

    def _plan(self, now: float) -> None:
        """Makes as many slots planned as actors are wanted."""
        if self.gave_up:
            for slot in self._slots:
                slot.planned = slot.planned and slot.alive
        planned = [slot for slot in self._slots if slot.planned]
        missing = self.wanted - len(planned)
        if missing < 0:
            # What does not run costs nothing to give up; of the others the newest has learnt least.
            planned.sort(key=lambda slot: (slot.alive, -slot.started, -slot.number))
            for slot in planned[:-missing]:
                slot.dismiss(now)
        elif not self.gave_up:
            free = [slot for slot in self._slots if not slot.planned and not slot.alive]
            for slot in sorted(free, key=lambda slot: slot.due)[:missing]:
                slot.planned = True

    def report(self) -> FleetReport:
        """What the learner is told. Running: processes alive; starting: waiting to be started again."""
        return FleetReport(
            slots=self.slots,
            running=sum(slot.alive for slot in self._slots),
            starting=sum(slot.planned and not slot.alive for slot in self._slots),
            failed=self._failed,
            gave_up=self.gave_up,
            exit_code=self._verdict.exit_code,
            why=self._verdict.why or self._clamped,
        )

    @property
    def gave_up(self) -> bool:
        """No more actors are started; those that run go on."""
        return self._verdict.gave_up

    @property
    def deadline(self) -> float:
        """When `tick` has something to do next."""
        return min([self._reporter.deadline, self._abandon_at, *(slot.deadline for slot in self._slots)])

    def finished(self, now: float) -> bool:
        """Stopped, and no actor left that is worth waiting for."""
        return self.stopping and (now >= self._abandon_at or not any(slot.alive for slot in self._slots))
