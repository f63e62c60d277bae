"""A relay's process on the virtual clock: like `relay.daemon`, a shell around the relay's core."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from actor.effects import Leave
from actor.outbox import Send as ToLearner
from common.errors import EXIT_DONE, A3cdError, WireError
from common.wire.frames import split
from common.wire.messages import Gradient, Hello
from learner.effects import Disconnect, Publish
from learner.effects import Send as ToSite
from relay.core import DISMISS_SECONDS, REMIND_SECONDS, RelayCore
from relay.effects import Effect, Serve
from simulation.event_queue import Event, EventQueue
from simulation.network import Frames, Network, frames_of
from simulation.settings import LOOPBACK, Costs, Link


@dataclass(frozen=True)
class _Job:
    """A message to handle."""

    seconds: float
    """Processor time that it takes."""
    call: Callable[[], list[Effect]]


class RelayNode:
    """Relays between the learner on one network and the actors on that of a site, until it leaves or is killed."""

    def __init__(
        self,
        queue: EventQueue,
        learner: Network,
        site: Network,
        hello: Hello,
        costs: Costs,
        *,
        mbit: float = 0.0,
        link: Link = LOOPBACK,
        address: str = "127.0.0.1",
    ) -> None:
        """site: the network where the relay listens. mbit: bandwidth for weights there, in Mbit/s; 0: as the run's
        settings say. link: the relay's link to the learner."""
        self.core = RelayCore(hello, queue.now, learner="the simulated one", weights_port=1, mbit=mbit)
        self.exit_code: int | None = None
        """None while the process runs."""
        self.worked = 0.0
        """Seconds of processor time so far."""
        self.published = 0
        """Broadcasts that were passed on."""
        self._queue = queue
        self._learner = learner
        self._site = site
        self._costs = costs
        self._header_bytes = 0
        """Length of the longest header that an actor sends; 0: the relay does not listen to actors yet."""
        self._inbox: deque[_Job] = deque()
        self._waiting = True
        self._event: Event = queue.at(queue.now, self._turn)
        self.connection = learner.connect(f"{hello.name} {hello.incarnation}".encode(), self, link, address)

    # -- what the learner's network brings -----------------------------------------------------------------------------

    def receive(self, frames: Frames) -> None:
        self._put(0.0, lambda: self.core.heard(self._queue.now, *split(frames)))

    def hear(self, frame: bytes) -> None:
        self._put(0.0, lambda: self.core.broadcast(self._queue.now, frame))

    def connected(self) -> None:
        self.core.connected(self._queue.now)
        self._wake()

    def arrived(self, size: int) -> None:
        self.core.membership.alive(self._queue.now)
        self.core.arrived(self._queue.now, size)

    # -- what the site's network brings --------------------------------------------------------------------------------

    def of_actor(self, routing_id: bytes, address: str, frames: Frames) -> None:
        self._put(self._costs.reading(frames), partial(self._handle, routing_id, address, frames))

    def _handle(self, routing_id: bytes, address: str, frames: Frames) -> list[Effect]:
        try:
            message, body = split(frames, self._header_bytes, by_learner=True)
        except WireError as error:
            return self.core.malformed(routing_id, error)
        return self.core.handle(self._queue.now, routing_id, message, body, address=address)

    # -- the process: one message after the other, then what is due ----------------------------------------------------

    def _put(self, seconds: float, call: Callable[[], list[Effect]]) -> None:
        if self.exit_code is None:
            self._inbox.append(_Job(seconds, call))
            self._wake()

    def _wake(self) -> None:
        if self._waiting and self.exit_code is None:
            self._plan(self._queue.now, self._turn)

    def _turn(self) -> None:
        if self._inbox:
            self._guarded(partial(self._work, self._inbox.popleft()))
            return
        self._guarded(lambda: self._do(self.core.tick(self._queue.now)))
        if self.exit_code is None:
            self._plan(max(self.core.deadline, self._queue.now + 1e-3), self._turn)
            self._waiting = True

    def _guarded(self, action: Callable[[], object]) -> None:
        """Ends the process, as the daemon does, if the core can go on no more."""
        try:
            action()
        except A3cdError as error:
            self._do(self.core.stop(str(error)))
            self._end(error.exit_code)

    def _work(self, job: _Job) -> None:
        """Handles a message at once; its effects are carried out after the time that this takes."""
        effects = job.call()
        sums = sum(isinstance(effect, ToLearner) and isinstance(effect.message, Gradient) for effect in effects)
        seconds = job.seconds + sums * self._costs.relay_sum
        self.worked += seconds

        def finish() -> None:
            self._do(effects)
            self._do(self.core.tick(self._queue.now, heard_all=not self._inbox))

        def done() -> None:
            self._guarded(finish)
            if self.exit_code is None:
                self._turn()

        self._plan(self._queue.now + seconds, done)

    def _plan(self, time: float, action: Callable[[], object]) -> None:
        self._event.cancel()
        self._waiting = False
        self._event = self._queue.at(time, action)

    def _do(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case ToLearner(message=message, body=body):
                    if not self._learner.send_up(self.connection, frames_of(message, body)):
                        self.core.unsent(self._queue.now, effect)
                case ToSite(peer=peer, message=message, body=body):
                    self._site.send_down(peer, frames_of(message, body))
                case Publish(frame=frame):
                    self.published += 1
                    self._site.publish(frame)
                case Disconnect(peer=peer, ban_seconds=seconds):
                    self._site.disconnect(peer, seconds)
                case Serve():
                    self._serve(effect)
                case Leave():
                    self._dismiss(self._queue.now + DISMISS_SECONDS)

    def _serve(self, effect: Serve) -> None:
        self.connection.subscribed = True
        if not self._header_bytes:
            self._site.learner_back(_Listener(self))
        self._header_bytes = effect.spec.header_bytes

    # -- its end -------------------------------------------------------------------------------------------------------

    def kill(self) -> None:
        """Ends at once, as after SIGKILL: no goodbye is sent."""
        if self.exit_code is None:
            self._end(137)

    def _dismiss(self, until: float) -> None:
        """Ends, as the run is over, once all actors have said goodbye, or at the time `until`."""
        if self.exit_code is not None:
            return
        if not self.core.present or self._queue.now >= until:
            self._end(EXIT_DONE)
            return
        self._do(self.core.remind())
        self._queue.after(REMIND_SECONDS, partial(self._dismiss, until))

    def _end(self, exit_code: int) -> None:
        self.exit_code = exit_code
        self._event.cancel()
        self._inbox.clear()
        self._learner.close(self.connection)
        self._site.learner_gone()


@dataclass(frozen=True)
class _Listener:
    """The relay as its site sees it, where it is a learner."""

    relay: RelayNode

    def receive(self, routing_id: bytes, address: str, frames: Frames) -> None:
        self.relay.of_actor(routing_id, address, frames)
