"""The actor daemon, the shell of the core: one thread that plays, and between steps looks after its sockets."""

import importlib
import logging
import math
import time
from collections.abc import Collection

import zmq

from actor.core import SERVICE_SECONDS, WAIT_SECONDS, ActorCore
from actor.effects import Effect, Leave, Prepare, Warn
from actor.outbox import Send
from actor.players.base import Player
from actor.players.build import build
from common.errors import EXIT_DONE, A3cdError, ConfigurationError, RefusedError
from common.host.heap import Heap
from common.host.modules import check_module
from common.host.security.access import LearnerEndpoint
from common.host.service.logs import Limited, again
from common.host.service.notify import Notifier
from common.host.service.signals import Signals
from common.host.service.standstill import Standstill
from common.settings.codec_names import NAMES
from common.wire import sockets
from common.wire.client import MAX_REPLY_BYTES, LearnerLink, introduce
from common.wire.membership import KEPT_OUT, Membership

_log = logging.getLogger("actor")
WATCH_SECONDS = 0.1
"""Between two looks at the connection while it plays: a look costs as much as a step of a small network."""
QUEUE_WAIT_MS = 1000
"""Longest wait for room in the network's queue."""
REPEAT_SECONDS = 60.0
"""Interval between two log lines for the same failure; the second says how often it happened meanwhile."""


def run(
    access: LearnerEndpoint, *, name: str = "", launcher: str = "", modules: Collection[str] = (), wait: float = 0.0
) -> int:
    """Plays for the learner at `access` until the run is over or a signal comes; returns the exit code.

    A learner that is absent, or refuses this actor, is asked again, ever more slowly.

    Args:
        name: in the learner's status.
        launcher: which started this actor.
        modules: may be imported if the learner's settings name them for the environment or the network; others may not.
        wait: longest time without a learner, in seconds; 0: no limit.

    Raises EnvironmentMissingError where this host cannot play, UnavailableError when the environment keeps failing,
    when the learner quarantines this actor, or after `wait`.
    """
    with Signals() as signals:
        return _Daemon(access, name, launcher, modules, wait, signals).run()


class _Daemon:
    def __init__(
        self,
        access: LearnerEndpoint,
        name: str,
        launcher: str,
        modules: Collection[str],
        wait: float,
        signals: Signals,
    ) -> None:
        hello = introduce("actor", access, name, launcher=launcher, codecs=NAMES)
        self._access = access
        self._modules = modules
        self._wait_limit = wait
        self._signals = signals
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._link = LearnerLink(self._context, access)
        self._subscriber: zmq.Socket[bytes] | None = None
        self._weights_port = 0
        self._core = ActorCore(hello, time.monotonic())
        self._limited = Limited(REPEAT_SECONDS)
        self._standstill = Standstill(time.monotonic())
        self._heap = Heap()
        self._left = ""
        self._notifier = Notifier()
        self._watch_due = -math.inf
        """When the connection is looked at next; at once after a wait, which it may have ended."""
        self._told = ""
        """The service manager."""
        self._playing = ""

    def run(self) -> int:
        try:
            self._service()
            importlib.import_module("actor.players.gradients")  # numpy, gymnasium: while this actor is not welcome yet
            while not self._left and self._signals.requested is None:
                self._service()
                player = self._core.player
                if player is not None and player.ready and self._core.state == "working":
                    self._play(player)
                else:
                    self._wait()
            if self._signals.requested is not None:
                self._do(self._core.leave("stopped by a signal"))
                return self._signals.exit_code
            _log.info("done: %s", self._left)
            return EXIT_DONE
        except A3cdError as error:
            self._do(self._core.leave(str(error)))
            raise
        finally:
            self._notifier.stopping(self._left)
            self._close_player()
            if self._subscriber is not None:
                self._subscriber.close(linger=0)
            self._link.close()
            self._context.term()

    def _close_player(self) -> None:
        if self._core.player is not None:
            self._core.player.close()
        self._core.player = None

    def _service(self) -> None:
        """Messages, weights, heartbeats, the service manager, the operator."""
        now = time.monotonic()
        if now >= self._watch_due:
            self._watch_due = now + WATCH_SECONDS
            if self._link.watch(now, self._core.membership):
                self._core.connected(now)
            self._core.outbox.arrived(now, self._link.arrived())
        for message, body in self._link.receive():
            self._do(self._core.handle(time.monotonic(), message, body))
        while self._subscriber is not None:
            try:
                # CONFLATE leaves at most the newest; a reconnect may bring an older one.
                frame = self._subscriber.recv(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                break
            self._do(self._core.broadcast(time.monotonic(), frame.buffer))
        now = time.monotonic()
        if stood := self._standstill.look(now):
            _log.warning("stood still for %.0f s: a long step or reset, a stopped process, or a suspended host", stood)
        self._do(self._core.tick(now))
        self._heap.look(now)
        self._notifier.watchdog(now)
        self._tell(now, self._core.membership)

    def _tell(self, now: float, membership: Membership) -> None:
        """The service manager and the operator, whether there is a learner and why not."""
        membership.give_up(now, self._wait_limit)
        obstacle = membership.obstacle
        waiting = f"{KEPT_OUT}{obstacle}" if obstacle else f"waiting for the learner at {self._access.address}"
        told = self._playing if membership.member else waiting
        if told != self._told:
            self._told = told
            self._notifier.status(told)
        self._keep_subscription(membership)
        waited = membership.notice(now)
        if waited is None:
            return
        if obstacle:
            _log.warning("%s; trying again, ever more slowly", obstacle)
        else:
            _log.warning("no answer from the learner at %s for %.0f s; waiting for it", self._access.address, waited)

    def _wait(self) -> None:
        poller = zmq.Poller()
        poller.register(self._link.socket, zmq.POLLIN)
        poller.register(self._link.monitor, zmq.POLLIN)
        poller.register(self._signals, zmq.POLLIN)
        seconds = min(self._core.deadline, self._notifier.deadline) - time.monotonic()
        poller.poll(max(1, math.ceil(1e3 * min(max(0.0, seconds), WAIT_SECONDS))))
        self._watch_due = -math.inf

    def _play(self, player: Player) -> None:
        try:
            complete = player.advance(time.monotonic() + SERVICE_SECONDS)
        except ConfigurationError:  # trying again would not help
            raise
        except A3cdError as error:
            self._do(self._core.failed(time.monotonic(), error))
        else:
            if complete:
                self._do(self._core.advanced(time.monotonic()))

    def _do(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send():
                    self._send(effect)
                case Warn():
                    held = self._limited.admit(effect.text, time.monotonic())
                    if held is not None:
                        _log.warning("%s%s", effect.text, again(held))
                case Prepare():
                    self._prepare(effect)
                case Leave():
                    self._left = effect.reason

    def _send(self, effect: Send) -> None:
        if self._link.send(effect.message, effect.body):
            return
        if effect.wait:
            self._link.socket.poll(QUEUE_WAIT_MS, zmq.POLLOUT)
            self._link.send(effect.message, effect.body)
        else:
            self._core.unsent(time.monotonic(), effect)

    def _prepare(self, effect: Prepare) -> None:
        welcome, settings = effect.welcome, effect.settings
        for named in (settings.environment.id, settings.network.kind):
            check_module(named, self._modules)
        self._close_player()
        try:
            self._core.player = build(welcome, settings, effect.body, self._core.outbox)
        except RefusedError as error:
            self._do(self._core.refuse(time.monotonic(), str(error)))
            return
        self._core.membership.alive(time.monotonic())  # it was not listened to meanwhile
        if welcome.codec:  # a learner that chooses the actions broadcasts no weights
            self._subscribe(welcome.weights_port)
        self._playing = f"playing {settings.environment.id} x{settings.environment.num_envs} in run {welcome.run}"
        way = f"codec {welcome.codec}" if welcome.codec else "actions from the learner"
        _log.info("%s, epoch %d, %s", self._playing, welcome.epoch, way)
        self._notifier.ready(self._playing)

    def _keep_subscription(self, membership: Membership) -> None:
        """Whoever is kept out does not knock at the second port, which would be tried many times a second."""
        if membership.member and self._weights_port and self._subscriber is None:
            self._subscribe(self._weights_port)
        elif membership.obstacle and not membership.member and self._subscriber is not None:
            self._subscriber.close(linger=0)
            self._subscriber = None

    def _subscribe(self, port: int) -> None:
        if self._subscriber is not None:
            if self._weights_port == port:
                return
            self._subscriber.close(linger=0)
        self._weights_port = port
        where = str(self._access.address.with_port(port))
        self._subscriber = sockets.subscriber(self._context, where, MAX_REPLY_BYTES, self._access.credential)
