"""A launcher's process and its host: the launcher's core decides, and actors start and end in virtual time."""

from collections.abc import Callable, Mapping
from functools import partial

from common.errors import A3cdError
from common.wire.frames import pack, split
from common.wire.membership import Membership
from common.wire.messages import AnyMessage, Goodbye, Hello, Stop
from deploy.backends.background_loop import Report
from deploy.backends.base import Backend, Ended, Observation, Requests, actor_name
from deploy.launcher.core import END_SECONDS, LOOK_SECONDS, LauncherCore
from deploy.launcher.reconciler import Slot
from simulation.actor_node import ActorNode
from simulation.event_queue import Event, EventQueue
from simulation.network import Frames, Network
from simulation.settings import LOOPBACK, Link

TURN_SECONDS = 0.001
"""Delay from an event to the reaction, because it must first wake the shell or the backend's thread."""
StartActor = Callable[[str, str, Callable[[int], object]], ActorNode]
"""Starts the process of an actor, given its name, its launcher's name, and a function that takes its exit code."""


class LauncherNode:
    def __init__(
        self,
        queue: EventQueue,
        network: Network,
        hello: Hello,
        start: StartActor,
        *,
        start_seconds: Callable[[], float],
        prestart: int = 0,
        found: Mapping[int, ActorNode] | None = None,
        link: Link = LOOPBACK,
        address: str = "127.0.0.1",
    ) -> None:
        """start_seconds: time from the start of a process to its hello. found: actors that outlived an earlier launcher
        of this name, by slot; None: actors end with their launcher.
        """
        self.name = hello.name
        names = {actor_name(hello.name, number): Slot(number, 0) for number in range(hello.slots)}
        self.core = LauncherCore([hello.slots], prestart=prestart, names=names, outlives=found is not None)
        self.actors: dict[int, ActorNode | None] = dict(found or {})
        """Actors by slot; None: the slot's process is starting."""
        for slot, actor in self.outlived.items():
            actor.ended = partial(self._end, slot)
        self.gone = False
        self._queue = queue
        self._network = network
        self._start = start
        self._start_seconds = start_seconds
        self._membership = Membership(hello, queue.now)
        self._ended: dict[int, int] = {}
        """Exit codes that are not reported yet, by slot."""
        self._observe_due = queue.now
        """When to observe the backend next, unless something changes first."""
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
        """Does nothing, because a launcher subscribes to no broadcast."""

    def connected(self) -> None:
        self._connected = True
        self._look_soon()

    def arrived(self, size: int) -> None:
        pass

    def _look_soon(self) -> None:
        if self._next is not None and self._next.time > self._queue.now + TURN_SECONDS:
            self._next.cancel()
            self._next = self._queue.after(TURN_SECONDS, self._look)

    def _look(self) -> None:
        """Runs one round of the shell's loop, including the background loop's turn if it is due."""
        now = self._queue.now
        self._next = None
        if self.gone:
            return
        if self._connected:
            self._connected = False
            self._membership.connected(now)
        if self._ended or now >= self._observe_due:
            self._observe(now)
        report = self.core.tick(now)
        if report is not None and self._membership.member:
            self._send(report)
        if self.core.due(now):
            self._observe_due = now
        message = self._membership.tick(now, state=f"{self.core.actors} actors")
        if message is not None and not self._send(message):
            self._membership.unsent(now)
        if self.core.finished(now):
            self._send(Goodbye(reason="told to"))
            self._leave()
            return
        waits = END_SECONDS if self.core.stopping else LOOK_SECONDS
        due = min(self.core.deadline, self._membership.deadline, self._observe_due, now + waits)
        self._next = self._queue.at(max(due, now + TURN_SECONDS), self._look)

    def kill(self) -> None:
        """Ends at once, as after SIGKILL; its actors go on, and another launcher of this name may find them."""
        if not self.gone:
            self._leave()

    @property
    def outlived(self) -> dict[int, ActorNode]:
        """Living actors, by slot."""
        return {slot: actor for slot, actor in self.actors.items() if actor is not None}

    def _leave(self) -> None:
        self.gone = True
        if self._next is not None:
            self._next.cancel()
            self._next = None
        self._network.close(self.connection)

    def _send(self, message: AnyMessage) -> bool:
        return self._network.send_up(self.connection, [pack(message)])

    # -- the host ------------------------------------------------------------------------------------------------------

    def _observe(self, now: float) -> None:
        """Takes the background loop's turn; the next one follows at once while there is something to request."""
        self._observe_due = now + Backend.interval
        requests = self.core.observe(now, 0, self._report()).requests
        self._carry_out(requests)
        if requests.slots:
            self._observe_due = now

    def _carry_out(self, requests: Requests) -> None:
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
            self._queue.after(self._start_seconds(), self._starter(slot))

    def _starter(self, slot: int) -> Callable[[], None]:
        def start() -> None:
            if slot in self.actors and self.actors[slot] is None and not self.gone:
                name = actor_name(self.name, slot)
                self.actors[slot] = self._start(name, self.name, partial(self._end, slot))

        return start

    def _end(self, slot: int, exit_code: int) -> None:
        """The actor in a slot has ended."""
        if self.actors.pop(slot, self) is not self:
            self._ended[slot] = exit_code
            self._look_soon()

    def _report(self) -> Report:
        ended = tuple(Ended(slot, code) for slot, code in sorted(self._ended.items()))
        self._ended.clear()
        for slot in [slot for slot in self.actors if slot >= self.core.slots]:  # left by a launcher with more slots
            if (surplus := self.actors.pop(slot)) is not None:
                surplus.leave()
        return Report(Observation(frozenset(self.actors)), ended)
