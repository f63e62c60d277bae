"""A launcher's process, and its host: the launcher's core decides, and actors start and end in virtual time."""

from collections.abc import Callable

from common.errors import A3cdError
from common.wire.frames import pack, split
from common.wire.membership import Membership
from common.wire.messages import AnyMessage, Goodbye, Hello, Stop
from deploy.backends.background_loop import Report
from deploy.backends.base import Ended, Observation, Requests, actor_name
from deploy.launcher.core import LauncherCore
from deploy.launcher.reconciler import Slot
from simulation.actor_node import ActorNode
from simulation.event_queue import Event, EventQueue
from simulation.network import Frames, Network
from simulation.settings import LOOPBACK, Link

LOOK_SECONDS = 0.05
"""From something new to the look at it."""
QUIET_SECONDS = 0.5
"""Between two looks while there is nothing new."""
StartActor = Callable[[str, str, Callable[[int], object]], ActorNode]
"""Starts the process of an actor: its name, its launcher's, and what is told its exit code."""


class LauncherNode:
    def __init__(
        self,
        queue: EventQueue,
        network: Network,
        hello: Hello,
        start: StartActor,
        *,
        start_seconds: float,
        prestart: int = 0,
        link: Link = LOOPBACK,
        address: str = "127.0.0.1",
    ) -> None:
        """start_seconds: until a process that was started says its hello."""
        self.name = hello.name
        names = {actor_name(hello.name, number): Slot(number, 0) for number in range(hello.slots)}
        self.core = LauncherCore([hello.slots], prestart=prestart, names=names)
        self.actors: dict[int, ActorNode | None] = {}
        """By slot; None: its process starts."""
        self.gone = False
        self._queue = queue
        self._network = network
        self._start = start
        self._start_seconds = start_seconds
        self._membership = Membership(hello, queue.now)
        self._ended: dict[int, int] = {}
        """Exit codes that were not reported yet, by slot."""
        self._requests = Requests()
        self._connected = False
        self._next: Event | None = queue.at(queue.now, self._look)
        self.connection = network.connect(f"{hello.name} {hello.incarnation}".encode(), self, link, address)

    def receive(self, frames: Frames) -> None:
        if self.gone:
            return
        message, _ = split(frames)
        now = self._queue.now
        try:
            self._membership.handle(now, message)
        except A3cdError:
            self.core.stop(now)
        if isinstance(message, Stop) and not message.final:
            self._membership.lost(now)
        self.core.handle(now, message)
        self._look_soon()

    def hear(self, frame: bytes) -> None:
        """A launcher subscribes to nothing."""

    def connected(self) -> None:
        self._connected = True
        self._look_soon()

    def arrived(self, size: int) -> None:
        pass

    def _look_soon(self) -> None:
        if self._next is not None and self._next.time > self._queue.now + LOOK_SECONDS:
            self._next.cancel()
            self._next = self._queue.after(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        """One round of the shell's loop, with the background loop's turn in it."""
        now = self._queue.now
        self._next = None
        if self.gone:
            return
        self._next = self._queue.after(QUIET_SECONDS, self._look)
        if self._connected:
            self._connected = False
            self._membership.connected(now)
        self._carry_out()
        step = self.core.observe(now, 0, self._report())
        self._requests = step.requests
        if self._requests.slots:
            self._look_soon()
            self._carry_out()
        report = self.core.tick(now)
        if report is not None and self._membership.member:
            self._send(report)
        message = self._membership.tick(now, state=f"{self.core.actors} actors")
        if message is not None and not self._send(message):
            self._membership.unsent(now)
        if self.core.finished(now):
            self._send(Goodbye(reason="told to"))
            self.gone = True
            self._network.close(self.connection)

    def _send(self, message: AnyMessage) -> bool:
        return self._network.send_up(self.connection, [pack(message)])

    # -- the host ------------------------------------------------------------------------------------------------------

    def _carry_out(self) -> None:
        requests, self._requests = self._requests, Requests()
        for slot in sorted(requests.stop | requests.kill):
            actor = self.actors.get(slot)
            if actor is None:
                self._end(slot, 143)
            elif slot in requests.kill:
                actor.kill()
            else:
                actor.leave()
        for slot in sorted(requests.start):
            self.actors[slot] = None
            self._queue.after(self._start_seconds, self._starter(slot))

    def _starter(self, slot: int) -> Callable[[], None]:
        def start() -> None:
            if slot in self.actors and self.actors[slot] is None and not self.gone:
                name = actor_name(self.name, slot)
                self.actors[slot] = self._start(name, self.name, lambda code: self._end(slot, code))

        return start

    def _end(self, slot: int, exit_code: int) -> None:
        if self.actors.pop(slot, self) is not self:
            self._ended[slot] = exit_code
            self._look_soon()

    def _report(self) -> Report:
        ended = tuple(Ended(slot, code) for slot, code in sorted(self._ended.items()))
        self._ended.clear()
        return Report(Observation(frozenset(self.actors)), ended)
