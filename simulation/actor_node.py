"""An actor's process on the virtual clock: like `actor.daemon`, a shell around the actor's core."""

from collections import deque
from collections.abc import Callable
from functools import lru_cache, partial

from actor.core import SERVICE_SECONDS, WAIT_SECONDS, ActorCore
from actor.effects import Effect, Leave, Prepare
from actor.outbox import Send
from actor.players.base import Player
from actor.players.build import build
from common.errors import EXIT_DONE, A3cdError, ConfigurationError, RefusedError
from common.wire.bodies.broadcast import Broadcast
from common.wire.frames import split
from common.wire.membership import MAX_DRAIN
from common.wire.messages import Hello
from simulation.event_queue import Event, EventQueue
from simulation.network import Frames, Network, frames_of
from simulation.settings import LOOPBACK, Costs, Link
from simulation.virtual_environments import VirtualClock, VirtualMaker

MakePlayer = Callable[[Prepare, "ActorNode"], Player]


class ActorNode:
    """Plays from `start` until it leaves, fails, or is killed; `ended` is called with its exit code."""

    def __init__(
        self,
        queue: EventQueue,
        network: Network,
        hello: Hello,
        costs: Costs,
        *,
        ended: Callable[[int], object],
        speed: float = 1.0,
        link: Link = LOOPBACK,
        address: str = "127.0.0.1",
        make_player: MakePlayer | None = None,
    ) -> None:
        """speed: of the host. make_player: makes the player; None: the run's own player."""
        self.name = hello.name
        self.core = ActorCore(hello, queue.now)
        self.exit_code: int | None = None
        """None while the process runs."""
        self.waited = 0.0
        """Seconds spent idle, waiting for the learner."""
        self.clock = VirtualClock(queue.now)
        self.last_error = ""
        self._queue = queue
        self._network = network
        self._costs = costs
        self._speed = speed
        self.ended = ended
        self._make_player = make_player or build_player
        self.maker = VirtualMaker(self.clock, costs, speed)
        self._inbox: deque[Frames] = deque()
        self._news: bytes | None = None
        """The newest broadcast that is not read yet: with ZeroMQ's CONFLATE a socket keeps only one."""
        self._connected = False
        """Whether there is a new connection that the core has not been told of."""
        self._arrived = 0
        self._waiting: Event | None = None
        """The end of a wait for messages."""
        self._working: Event | None = None
        """The end of what the process does now; None: it does nothing."""
        self._waits_since = 0.0
        self._steps_before = self._rollout_steps = 0
        """Steps of single environments up to the last rollout's end, and in the last rollout."""
        self.connection = network.connect(f"{hello.name} {hello.incarnation}".encode(), self, link, address)
        self._waiting = queue.at(queue.now, self._turn)

    # -- what the network brings ---------------------------------------------------------------------------------------

    def receive(self, frames: Frames) -> None:
        self._inbox.append(frames)
        self._wake()

    def hear(self, frame: bytes) -> None:
        self._news = frame  # read with the next message, or within a second: a shell polls only the other socket

    def connected(self) -> None:
        self._connected = True
        self._wake()

    def arrived(self, size: int) -> None:
        self._arrived += size

    def _wake(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = self._queue.at(self._queue.now, self._turn)

    # -- the process ---------------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        """Handles messages, then plays for a while, or waits for more messages."""
        self._waiting = None
        try:
            self._service()
            if self.exit_code is not None:
                return
            player = self.core.player
            if self._working is not None:
                return  # it is making a player
            if player is not None and player.ready and self.core.state == "working":
                self._play(player)
                return
        except A3cdError as error:
            self._fail(error)
            return
        now = self._queue.now
        until = min(max(self.core.deadline, now + 0.001), now + WAIT_SECONDS)
        self._waiting = self._queue.at(until, self._turn)

    def _service(self) -> None:
        now = self._queue.now
        self.clock.now = max(self.clock.now, now)
        if self._connected:
            self._connected = False
            self.core.connected(now)
        if self._arrived:
            arrived, self._arrived = self._arrived, 0
            self.core.membership.alive(now)
            self.core.outbox.arrived(now, arrived)
        if self._inbox and self._read(now):
            return
        if self._news is not None and self.connection.subscribed:
            frame, self._news = self._news, None
            self._do(self.core.news(now, _unpacked(frame)))
        self._do(self.core.tick(now))

    def _read(self, now: float) -> bool:
        """Handles waiting messages. Returns whether one of them gave the process other work, or ended it."""
        for _ in range(min(MAX_DRAIN, len(self._inbox))):
            message, body = split(self._inbox.popleft())
            self._do(self.core.handle(now, message, body))
            if self.exit_code is not None or self._working is not None:
                return True
        return False

    def _play(self, player: Player) -> None:
        """Calls the player's `advance`; its result counts, and can be sent, only after the virtual time it takes."""
        self.clock.now = self._queue.now
        failed: A3cdError | None = None
        complete = False
        try:
            complete = player.advance(self._queue.now + SERVICE_SECONDS)
        except ConfigurationError:
            raise
        except A3cdError as error:
            failed = error
        if complete:
            self.clock.now += self._gradient_seconds()
        self._work_until(self.clock.now, partial(self._played, complete, failed))

    def _played(self, complete: bool, failed: A3cdError | None) -> None:
        now = self._queue.now
        if failed is not None:
            self._do(self.core.failed(now, failed))
        elif complete:
            self._do(self.core.advanced(now))

    def _gradient_seconds(self) -> float:
        """Returns the seconds of the rollout's gradient, if the actor computes it; PPO's later ones reuse its steps."""
        welcome = self.core.membership.welcome
        if welcome is None or welcome.settings["exchange"]["kind"] != "gradients":
            return 0.0
        steps, self._steps_before = self.maker.steps - self._steps_before, self.maker.steps
        self._rollout_steps = steps or self._rollout_steps
        return (self._costs.gradient + self._rollout_steps * self._costs.gradient_step) / self._speed

    def _work_until(self, time: float, done: Callable[[], object]) -> None:
        """Keeps the process busy, so that it reads nothing, until `time`; then calls `done`."""

        def end() -> None:
            self._working = None
            if self.exit_code is not None:
                return
            try:
                done()
            except A3cdError as error:
                self._fail(error)
                return
            if self._working is None and self.exit_code is None:
                self._turn()

        self._working = self._queue.at(time, end)

    # -- effects -------------------------------------------------------------------------------------------------------

    def _do(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send():
                    self._send(effect)
                case Prepare():
                    self._prepare(effect)
                case Leave():
                    self._end(EXIT_DONE)
                case _:
                    self.last_error = effect.text

    def _send(self, effect: Send) -> None:
        sent = self._network.send_up(self.connection, frames_of(effect.message, effect.body))
        if not sent and not effect.wait:
            self.core.unsent(self._queue.now, effect)

    def _prepare(self, effect: Prepare) -> None:
        if self.core.player is not None:
            self.core.player.close()
            self.core.player = None

        def done() -> None:
            now = self._queue.now
            try:
                self.core.player = self._make_player(effect, self)
            except RefusedError as error:
                self._do(self.core.refuse(now, str(error)))
                return
            self.core.membership.alive(now)
            self.connection.subscribed = bool(effect.welcome.codec)

        self._work_until(self._queue.now + self._costs.actor_prepare / self._speed, done)

    # -- its end -------------------------------------------------------------------------------------------------------

    def leave(self, reason: str = "stopped by a signal") -> None:
        """Leaves, as after SIGTERM."""
        if self.exit_code is None:
            self._do(self.core.leave(reason))

    def kill(self) -> None:
        """Ends at once, as after SIGKILL: no goodbye is sent."""
        if self.exit_code is None:
            self._end(137)

    def stall(self, seconds: float) -> None:
        """Stops the process for a while, in which it neither plays nor listens."""
        if self.exit_code is not None:
            return
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
            self._work_until(self._queue.now + seconds, lambda: None)
        elif self._working is not None and self._working.action is not None:
            action = self._working.action
            time = self._working.time + seconds
            self._working.cancel()
            self._working = self._queue.at(time, action)

    def _fail(self, error: A3cdError) -> None:
        self.last_error = str(error)
        self._do([one for one in self.core.leave(str(error)) if isinstance(one, Send)])
        self._end(error.exit_code)

    def _end(self, exit_code: int) -> None:
        if self.exit_code is not None:
            return
        self.exit_code = exit_code
        for event in (self._waiting, self._working):
            if event is not None:
                event.cancel()
        self._waiting = self._working = None
        self._network.close(self.connection)
        if self.core.player is not None:
            self.core.player.close()
            self.core.player = None
        self.ended(exit_code)


@lru_cache(maxsize=2)
def _unpacked(frame: bytes) -> Broadcast:
    """Unpacks a broadcast once for all actors that receive the same bytes."""
    return Broadcast.unpack(frame)


def build_player(effect: Prepare, node: ActorNode) -> Player:
    """Returns the run's player, on environments in virtual time."""
    return build(effect.welcome, effect.settings, effect.body, node.core.outbox, make=node.maker)
