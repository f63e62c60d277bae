"""What operators order: the end of the run, a checkpoint, another number of actors.

`learner.admission` decides who may be an operator.
"""

import math
from collections import deque
from typing import Literal

from common.host.service.logs import printable
from common.settings.sections import MAX_ACTORS
from common.wire.messages import Halt, Save, Saved, Scale, Scaled
from learner.effects import Effect, Log, Send, refuse
from learner.fleet import Fleet
from learner.peer import Peer
from learner.run import Run
from learner.scaling import Bounds, refusal, written

SECONDS_APART = 0.1
"""Least seconds between two orders. One that comes sooner is refused: each writes a line to the log, and may send a
message to every launcher."""


class Orders:
    def __init__(self, run: Run, fleet: Fleet) -> None:
        self.ending: tuple[Literal["stopped"], str] | None = None
        """How and why the run is to end; None: no operator has ordered it."""
        self._run = run
        self._fleet = fleet
        self._taken = -math.inf
        """When the last order was taken."""
        self._waiting: dict[bytes, None] = {}
        """Routing ids of the operators that wait for the next checkpoint, in the order in which they asked."""
        self._under_way: deque[list[bytes]] = deque()
        """Routing ids that wait for each checkpoint being written, the oldest checkpoint first."""

    def given(self, now: float, routing_id: bytes, peer: Peer, order: Halt | Save | Scale) -> list[Effect]:
        """Carry out an operator's order, or begin to: a checkpoint is answered once it is on the disk."""
        if why := self._refusal(now, order):
            return [refuse(routing_id, "order", why)]
        self._taken = now
        name = printable(peer.hello.name)
        who = f"operator {name} ({peer.place})"
        match order:
            case Halt():
                self._waiting[routing_id] = None
                self.ending = "stopped", f"stopped by {who}"
                return []
            case Save():
                self._waiting[routing_id] = None
                self._run.saves.hurry(now)
                return [Log("info", f"{who}: a checkpoint", own=True)]
            case Scale():
                return self._scale(now, routing_id, order, name, who)

    @property
    def checkpoint_ordered(self) -> bool:
        """Whether an operator waits for a checkpoint that is not begun yet, and not for the end."""
        return bool(self._waiting) and self.ending is None

    def saving(self) -> None:
        """Note that a checkpoint of the present state is begun."""
        self._under_way.append(list(self._waiting))
        self._waiting.clear()

    def saved(self, version: int, path: str, error: str) -> list[Effect]:
        """Answer the operators that wait for the oldest checkpoint under way; `error`: why it could not be written."""
        waiting = self._under_way.popleft() if self._under_way else []
        return [Send(one, Saved(version=version, path=path, error=error)) for one in waiting]

    def not_saved(self, why: str) -> list[Effect]:
        """Answer the waiting operators that there will be no further checkpoint, and why."""
        version, waiting = self._run.stats.counters.version, list(self._waiting)
        self._waiting.clear()
        return [Send(one, Saved(version=version, error=why)) for one in waiting]

    def _refusal(self, now: float, order: Halt | Save | Scale) -> str:
        settings = self._run.spec.settings
        if now - self._taken < SECONDS_APART and not isinstance(order, Halt):
            return f"orders are taken {SECONDS_APART:g} s apart: say it again"
        if not isinstance(order, Scale):
            return ""
        if settings.reproducible:
            return "reproducible = true: the number of actors stays as it is from beginning to end"
        return refusal(settings.scaling, order.minimum, order.maximum)

    def _scale(self, now: float, routing_id: bytes, order: Scale, name: str, who: str) -> list[Effect]:
        least, most = order.minimum, order.maximum
        settings = self._run.spec.settings.scaling
        bounds = Bounds(minimum=least, maximum=most, by=name, instead_of=written(settings))
        line = Log("info", f"{who}: actors {least}" if least == most else f"{who}: actors {least} to {most}", own=True)
        effects: list[Effect] = [line, *self._fleet.bound(now, bounds)]
        answer = Scaled(
            minimum=least,
            maximum=most,
            wanted=self._run.stats.decision.wanted,
            room=min(self._fleet.room, MAX_ACTORS),
        )
        return [*effects, Send(routing_id, answer)]
