"""The launcher's decisions: takes orders, observations and the time; returns requests to the backends and reports."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from common.errors import EXIT_DONE
from common.wire.messages import (
    MAX_ACTORS_NAMED,
    MAX_TEXT,
    AnyMessage,
    FleetOrder,
    FleetReport,
    Refused,
    Stop,
    Welcome,
)
from deploy.backends.background_loop import Report
from deploy.backends.base import Ended, Observation, Requests
from deploy.launcher.crash_loop import CrashLoop
from deploy.launcher.ending import LEAVE_SECONDS, Ending
from deploy.launcher.reconciler import Reconciler, Slot

LOOK_SECONDS = 0.5
"""Longest time between two looks of a shell at all deadlines; messages, signals and reports wake its loop earlier."""
END_SECONDS = 0.01
"""The same, while the last actors end."""


@dataclass(frozen=True)
class Step:
    """What an observation leads to."""

    requests: Requests
    found: tuple[Slot, ...] = ()
    """Slots whose actor this launcher did not start."""
    failures: tuple[Ended, ...] = ()


class LauncherCore:
    def __init__(
        self,
        slots: Sequence[int],
        hosts: Sequence[str] = ("",),
        prestart: int = 0,
        *,
        outlives: bool = False,
        names: Mapping[str, Slot] | None = None,
    ) -> None:
        """`slots`, `hosts`: the number of slots and the host name of each place.

        `prestart`: actors that load their libraries before the first order. `outlives`: whether the actors go on
        without this launcher, so that another launcher of its name finds them. `names`: the slot of each actor by its
        name, without the name of a key.
        """
        self.slots = sum(slots)
        self.wanted = min(prestart, self.slots)
        self.ordered = False
        self.stopping = False
        self._hosts = hosts
        self._outlives = outlives
        self._names = names or {}
        self._yielded = False
        """Whether another launcher of this name has taken this one's place at the learner."""
        self._reconciler = Reconciler(slots)
        self._crash_loops = [CrashLoop() for _ in hosts]
        self.problems = [""] * len(hosts)
        """For each place, what failed there last, or what a person should know; empty: nothing."""
        self._unsettled = set(range(len(hosts)))
        """Places that have not been observed yet, not even in vain."""
        self._interval = self._report_due = math.inf
        self._last: FleetReport | None = None
        """The report sent last; None: the learner knows nothing of this launcher yet."""
        self._failed = 0
        self._restarts: Counter[Slot] = Counter()
        self._clamped = ""
        self._epoch: tuple[str, int] | None = None
        self._ending = Ending()
        self._detached = False

    def handle(self, now: float, message: AnyMessage) -> list[Slot]:
        """Takes a message; returns the slots whose actor hangs according to the learner, and will be replaced."""
        match message:
            case Welcome():
                epoch = (message.run, message.epoch)
                if self._epoch not in (None, epoch):  # its settings may differ
                    self._crash_loops = [CrashLoop() for _ in self._hosts]
                self._epoch = epoch
                self._interval = message.heartbeat_seconds
                self._last = None
                if self._yielded and self._outlives:
                    self._take_over()
                self._yielded = False
            case Refused(code="replaced"):  # the actors belong to the other one, if it can find them
                self._yielded = True
                self.wanted = self.wanted if self._outlives else 0
            case FleetOrder() if not self.stopping:
                self.ordered = True
                self.wanted = min(message.actors, self.slots)
                beyond = message.actors > self.slots
                self._clamped = f"{message.actors} actors ordered, {self.slots} slots here" if beyond else ""
                return [slot for name, seconds in message.silent.items() for slot in self._hanging(now, name, seconds)]
            case Stop(final=True):
                self.stop(now, LEAVE_SECONDS)
        return []

    def _take_over(self) -> None:
        """Counts the actors that the other launcher left as wanted, as before a first order.

        The number last ordered was for other actors than these, which the other launcher started and stopped since.
        """
        self._reconciler.adopt()
        self.ordered, self.wanted = False, len(self._reconciler.plan)

    def _hanging(self, now: float, name: str, seconds: float) -> Iterator[Slot]:
        """Yields the slot of an actor that fell silent, if the same actor still runs there."""
        while name and name not in self._names:
            name = name.partition("/")[2]  # on another host, the name of its key is before the actor's own
        slot = self._names.get(name)
        if slot is not None and self._reconciler.replace(now, slot, seconds):
            yield slot

    def observe(self, now: float, place: int, report: Report) -> Step:
        """Answers a backend's report. Before the first order, all actors that are found count as wanted."""
        self._unsettled.discard(place)
        self._reconciler.carried_out(now, place, undone=report.undone)
        if report.seen is None:
            self._reconciler.lose(now, place)
            self.problems[place] = report.problem
            return Step(Requests())
        self._count_refusal(now, place, report, report.seen)
        failures = tuple(end for end in report.ended if self._is_failure(now, place, end))
        found = self._reconciler.observe(now, place, report.seen, [end.slot for end in report.ended])
        self._reconciler.plan |= found
        if self.stopping:
            for slot in found:
                self._reconciler.dismiss(now, slot)
        elif not self.ordered and found:
            self.wanted = max(self.wanted, len(self._reconciler.plan))
        self._plan(now)
        requests = Requests() if self._hands_off else self._reconciler.requests(now, place)
        waiting = any(slot.place == place for slot in self._reconciler.plan - self._reconciler.observed)
        if report.problem or not waiting:  # while slots wait, the last problem may be the reason
            self.problems[place] = report.problem
        if not self.ordered and not self.stopping:
            requests = replace(requests, planned=None)
        return Step(requests, tuple(sorted(found)), failures)

    def _count_refusal(self, now: float, place: int, report: Report, seen: Observation) -> None:
        """Counts the starts that were requested before this report as one refusal, if there are no actors for them."""
        asked = {slot for slot in self._reconciler.requested if slot.place == place}
        if not asked or seen.unsure:  # one that cannot see its actors may have started some
            return
        absent = {slot.number for slot in asked} - seen.alive - {end.slot for end in report.ended}
        if report.undone and absent:
            age = max(self._reconciler.age(now, slot) for slot in asked)
            self._crash_loops[place].refused(now, now - age, report.problem)
        elif not absent:
            self._crash_loops[place].accepted()

    def _is_failure(self, now: float, place: int, ended: Ended) -> bool:
        """Counts an actor's end if it is a failure; returns whether it is.

        Exit code 0 is no failure: the learner sent the actor away.
        """
        slot = Slot(ended.slot, place)
        if slot not in self._reconciler.plan or ended.exit_code == EXIT_DONE:
            return False
        self._failed += 1
        self._restarts[slot] += 1
        others = (other for other in self._reconciler.taken if other.place == place and other != slot)
        longest = max((self._reconciler.age(now, other) for other in others), default=0.0)
        self._crash_loops[place].count(now, ended, self._reconciler.age(now, slot), longest)
        return True

    def stop(self, now: float, patience: float = 0.0) -> None:
        """Begins the launcher's end: actors have `patience` seconds to leave, are then asked to, and then killed.

        Actors that belong to another launcher are left to it.
        """
        if self._hands_off:
            self.detach()
            return
        self._reconciler.end(now + patience, first=not self.stopping)
        self.stopping, self.wanted = True, 0
        self._ending.begin(now, patience)

    def detach(self) -> None:
        """Begins the launcher's end, while its actors go on until another launcher finds them."""
        self.stopping = self._detached = True

    def tick(self, now: float) -> FleetReport | None:
        """Returns the report if it has changed since the last one, or if a heartbeat interval has passed."""
        if self._detached:
            return None
        for slot in self._reconciler.observed - self._reconciler.starting:
            self._crash_loops[slot.place].lives(now, self._reconciler.age(now, slot))
        self._plan(now)
        report = self.report(now)
        news = msgspec.structs.replace(report, retry_seconds=0)
        if news == self._last and now < self._report_due:
            return None
        self._last, self._report_due = news, now + self._interval
        return report

    @property
    def deadline(self) -> float:
        """When `tick` or `due` next have something to do, unless a report or a message comes before.

        It does not include the trial after a crash loop, which may as well begin a second later.
        """
        return self._report_due if self._hands_off else min(self._report_due, self._reconciler.deadline)

    def due(self, now: float) -> set[int]:
        """Returns the places to observe now; each is returned once until its report comes."""
        return set() if self._hands_off else self._reconciler.due(now, ending=self.stopping)

    @property
    def _hands_off(self) -> bool:
        return self._detached or (self._yielded and self._outlives)

    def _plan(self, now: float) -> None:
        """Decides on nothing while the actors are another launcher's, whose orders this one does not hear."""
        if self._hands_off:
            return
        # Actors of an earlier launcher may be where nobody has looked yet: others beside them would be too many.
        usable = set() if self._unsettled else self._usable(now)
        self._reconciler.set_plan(now, self.wanted, usable)

    def _usable(self, now: float) -> set[Slot]:
        """The slots in which actors may be started."""
        ready = self._reconciler.ready
        doubtful = {place for place in ready if self._crash_loops[place].why}
        usable = {slot for slot in self._reconciler.slots if slot.place in ready - doubtful}
        return usable.union(*(self._trial(now, place) for place in doubtful))

    def _trial(self, now: float, place: int) -> set[Slot]:
        """The slot for the single actor that tries whether actors can run here again; empty if none may start now."""
        since = self._crash_loops[place].retry_at
        slots = {slot for slot in self._reconciler.slots if slot.place == place}
        taken = slots & self._reconciler.taken
        if now < since or any(now - self._reconciler.age(now, slot) >= since for slot in taken):
            return set()
        return {self._reconciler.next_free(slots)} if slots - taken else set()

    def report(self, now: float) -> FleetReport:
        """Returns what the learner is told.

        `running`: actors at work. `starting`: actors that are requested, not at work yet, or waiting to be started
        again. `slots`: slots in which an actor is or could be, so that the learner can order other actors elsewhere.
        """
        taken = self._reconciler.taken
        starting = self._reconciler.requested | self._reconciler.starting | self._reconciler.silent
        texts = [*(one.why for one in self._crash_loops), *self.problems, self._clamped]
        named = zip([*self._hosts, *self._hosts, ""], texts, strict=True)
        at_work = [name for name, slot in self._names.items() if slot in taken and slot not in starting]
        return FleetReport(
            slots=self.slots if self._unsettled else len(taken | self._usable(now)),
            running=len(taken - starting),
            starting=len(starting) + len(self._reconciler.plan - taken),
            failed=self._failed,
            gave_up=self.gave_up,
            exit_code=self._crash_loops[0].exit_code if self.gave_up else EXIT_DONE,
            retry_seconds=self._retry_seconds(now),
            why="; ".join(f"{host}: {text}" if host else text for host, text in named if text)[:MAX_TEXT],
            names=at_work[:MAX_ACTORS_NAMED],
            restarts=self._most_restarted(),
        )

    def _most_restarted(self) -> dict[str, int]:
        """Restarts by the actor's name; of many actors only those that were started again most often."""
        if not self._restarts:
            return {}
        names = {slot: name for name, slot in self._names.items()}
        most = self._restarts.most_common(MAX_ACTORS_NAMED)
        return {names.get(slot, f"slot {slot.number}"): count for slot, count in most}

    @property
    def actors(self) -> int:
        """Actors that exist, as far as is known."""
        return len(self._reconciler.taken)

    def _retry_seconds(self, now: float) -> int:
        times = [math.ceil(one.retry_at - now) for one in self._crash_loops if one.why]
        return max(0, min(times, default=0))

    @property
    def gave_up(self) -> bool:
        """Whether no actors are started anywhere, except one now and then as a trial; actors that run go on."""
        return all(one.why for one in self._crash_loops)

    def finished(self, now: float) -> bool:
        """Whether the launcher is stopped, and no actor is left that is worth waiting for."""
        if not self.stopping or self._detached:
            return self.stopping
        unasked = bool(self.unasked)
        return not (self._reconciler.taken or unasked) or self._ending.over(now, unasked)

    @property
    def unasked(self) -> dict[int, int | None]:
        """By place, how many actors are to end and would play on without this launcher, but were not asked to stop.

        None: nobody knows, since the place has not been seen.
        """
        if not self.stopping or self._detached or not self._outlives:
            return {}
        known = Counter(slot.place for slot in self._reconciler.unasked)
        return {place: known[place] or None for place in sorted(known.keys() | self._reconciler.doubtful)}

    def late_seconds(self, now: float) -> float:
        """For how long this launcher goes on waiting for tools although its actors should be gone; 0: it does not."""
        return self._ending.rest(now) if self._ending.late(now) and self.unasked else 0.0
