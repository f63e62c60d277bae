"""A launcher's core with a clock and the actors it believes to have."""

from __future__ import annotations

from collections.abc import Sequence

from common.wire.messages import FleetOrder, FleetReport, Welcome
from deploy.backends.base import Condition, Ended
from deploy.launcher.core import LauncherCore
from deploy.launcher.slot import StartActor, StopActor


class Bench:
    """Every tick is checked: no slot is started twice or stopped when empty."""

    def __init__(self, slots: int = 4, warm: int = 0, hosts: Sequence[str] = ()) -> None:
        self.core = LauncherCore(slots, warm, hosts)
        self.now = 1000.0
        self.reports: list[FleetReport] = []
        self.alive: set[int] = set()
        self.told: set[int] = set()

    def tick(self) -> list[StartActor | StopActor]:
        actions: list[StartActor | StopActor] = []
        for effect in self.core.tick(self.now):
            if isinstance(effect, FleetReport):
                self.reports.append(effect)
                continue
            actions.append(effect)
            if isinstance(effect, StartActor):
                assert effect.slot not in self.alive
                self.alive.add(effect.slot)
                self.told.discard(effect.slot)
            else:
                assert effect.slot in self.alive
                assert effect.kill == (effect.slot in self.told)
                self.told.add(effect.slot)
        return actions

    def order(self, actors: int) -> list[StartActor | StopActor]:
        self.core.handle(self.now, FleetOrder(actors=actors, why="test"))
        return self.tick()

    def welcome(self, epoch: int = 1) -> list[StartActor | StopActor]:
        self.core.handle(self.now, Welcome(run="r", epoch=epoch, heartbeat_seconds=2.0, expiry_seconds=30.0))
        return self.tick()

    def ended(self, slot: int, exit_code: int = 1, last_words: str = "") -> bool:
        self.alive.remove(slot)
        return self.core.ended(self.now, Ended(slot, exit_code, last_words))

    def after(self, seconds: float) -> list[StartActor | StopActor]:
        self.now += seconds
        return self.tick()

    @property
    def report(self) -> FleetReport:
        return self.core.report()

    def found(self, *slots: int) -> list[StartActor | StopActor]:
        for slot in slots:
            self.core.found(self.now, slot)
        self.alive |= set(slots)
        self.told -= set(slots)
        return self.tick()

    def observe(self, condition: Condition) -> list[StartActor | StopActor]:
        self.core.observe(self.now, condition)
        return self.tick()
