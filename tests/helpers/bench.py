"""A test bench for a launcher's core: a clock, and a fake backend that keeps the actors and reports them."""

from __future__ import annotations

from collections.abc import Sequence

from common.wire.messages import FleetOrder, FleetReport, Welcome
from deploy.backends.background_loop import Report
from deploy.backends.base import Ended, Observation, actor_name
from deploy.launcher.core import LauncherCore
from deploy.launcher.reconciler import Slot


class Bench:
    """Checks every request: no slot is started twice, or stopped while empty."""

    def __init__(
        self,
        slots: int = 4,
        prestart: int = 0,
        hosts: Sequence[str] = ("",),
        seen: bool = True,
        outlives: bool = False,
    ) -> None:
        """`slots`: per host; `seen`: whether each host was observed once; `outlives`: actors outlive the launcher."""
        self.places = range(len(hosts))
        self.core = LauncherCore(
            [slots] * len(hosts),
            hosts,
            prestart,
            outlives=outlives,
            names={
                actor_name(f"lab-{host}" if host else "lab", number): Slot(number, place)
                for place, host in enumerate(hosts)
                for number in range(slots)
            },
        )
        self.now = 1000.0
        self.reports: list[FleetReport] = []
        self.alive: set[Slot] = set()
        self.starting: set[Slot] = set()
        self.told: set[Slot] = set()
        self._earlier: list[str] = []
        self.problems: dict[int, str] = {}
        """Reasons why places cannot be observed, by place."""
        if seen:
            self.observe()

    def observe(self, *places: int) -> list[str]:
        """Reports these places, or all, until the core requests nothing more; returns the requests."""
        actions: list[str] = []
        waiting = list(places or self.places)
        while waiting:
            place = waiting.pop()
            done = self._answered(place, Report(self._seen(place), problem=self.problems.get(place, "")))
            actions += done
            waiting += [place] if done else []
        return sorted(actions)

    def _seen(self, place: int) -> Observation | None:
        if self.problems.get(place):
            return None
        alive, starting = (
            frozenset(slot.number for slot in slots if slot.place == place) for slots in (self.alive, self.starting)
        )
        return Observation(alive, starting & alive)

    def _answered(self, place: int, report: Report) -> list[str]:
        requests = self.core.observe(self.now, place, report).requests
        where = f" on {place}" if place else ""
        for number in requests.start:
            assert Slot(number, place) not in self.alive
            self.alive.add(Slot(number, place))
            self.told.discard(Slot(number, place))
        for number in requests.stop:
            assert Slot(number, place) in self.alive - self.told
        for number in requests.kill:
            assert Slot(number, place) in self.alive & self.told
        self.told |= {Slot(number, place) for number in requests.stop}
        made = (("start", requests.start), ("stop", requests.stop), ("kill", requests.kill))
        return [f"{what} {number}{where}" for what, numbers in made for number in numbers]

    def tick(self) -> list[str]:
        """Returns what the core requests now."""
        report = self.core.tick(self.now)
        actions, self._earlier = self._earlier, []
        places = {*self.core.due(self.now), *(self.places if actions else ())}
        for place in sorted(places):
            actions += self.observe(place)
        self.reports += [one for one in (report, self.core.tick(self.now)) if one is not None]
        return sorted(actions)

    def order(self, actors: int) -> list[str]:
        self.core.handle(self.now, FleetOrder(actors=actors, why="test"))
        return self.tick()

    def welcome(self, epoch: int = 1) -> list[str]:
        self.core.handle(self.now, Welcome(run="r", epoch=epoch, heartbeat_seconds=2.0, expiry_seconds=30.0))
        return self.tick()

    def ended(self, slot: int, exit_code: int = 1, last_words: str = "", place: int = 0) -> bool:
        """Ends an actor; returns whether the core counts it as a failure. The next tick returns the core's requests."""
        self.alive.remove(Slot(slot, place))
        before = self.report.failed
        self._earlier += self._answered(place, Report(self._seen(place), (Ended(slot, exit_code, last_words),)))
        return self.report.failed > before

    def after(self, seconds: float) -> list[str]:
        self.now += seconds
        return self.tick()

    @property
    def report(self) -> FleetReport:
        return self.core.report(self.now)

    def found(self, *slots: int) -> list[str]:
        self.alive |= {Slot(slot) for slot in slots}
        self.told -= {Slot(slot) for slot in slots}
        return self.observe()
