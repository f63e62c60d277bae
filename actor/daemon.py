"""The actor daemon, the shell of the core: one thread that plays, and between steps looks after its sockets."""

import logging
import math
import time
from collections.abc import Collection

import zmq

from actor.core import ActorCore, Effect, Leave, Prepare, Warn
from actor.outbox import Send
from actor.players.base import Player
from actor.players.build import build
from common.errors import EXIT_DONE, A3cdError, ConfigurationError, RefusedError
from common.host.modules import check_module
from common.host.security.access import LearnerEndpoint
from common.host.service.logs import Limited, again
from common.host.service.notify import Notifier
from common.host.service.signals import Signals
from common.settings.codec_names import NAMES
from common.wire import sockets
from common.wire.client import MAX_REPLY_BYTES, LearnerLink, introduce

_log = logging.getLogger("actor")
SERVICE_SECONDS = 0.02
"""Longest time an actor plays before it looks at its sockets; a rollout is usually over sooner."""
WAIT_SECONDS = 1.0
QUEUE_WAIT_MS = 1000
"""Longest wait for room in the network's queue."""
REPEAT_SECONDS = 60.0
"""Interval between two log lines for the same failure; the second says how often it happened meanwhile."""


def run(access: LearnerEndpoint, *, name: str = "", launcher: str = "", modules: Collection[str] = ()) -> int:
    """Plays for the learner at `access` until the run is over or a signal comes; returns the exit code.

    modules: may be imported if the learner's settings name them for the environment or the network; others may not.
    Raises RefusedError when the learner refuses this actor, EnvironmentMissingError where this host cannot play,
    UnavailableError when the environment keeps failing.
    """
    with Signals() as signals:
        return _Daemon(access, name, launcher, modules, signals).run()


class _Daemon:
    def __init__(
        self, access: LearnerEndpoint, name: str, launcher: str, modules: Collection[str], signals: Signals
    ) -> None:
        hello = introduce("actor", access, name, launcher=launcher, codecs=NAMES)
        self._access = access
        self._modules = modules
        self._signals = signals
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._link = LearnerLink(self._context, access)
        self._subscriber: zmq.Socket[bytes] | None = None
        self._weights_port = 0
        self._core = ActorCore(hello, time.monotonic())
        self._limited = Limited(REPEAT_SECONDS)
        self._left = ""
        self._notifier = Notifier()
        self._joined: bool | None = None
        self._playing = ""

    def run(self) -> int:
        try:
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
        self._do(self._core.tick(now))
        self._notifier.watchdog(now)
        if self._joined is not self._core.membership.member:
            self._joined = self._core.membership.member
            waiting = f"waiting for the learner at {self._access.address}"
            self._notifier.status(self._playing if self._joined else waiting)
        waited = self._core.membership.notice(now)
        if waited is not None:
            _log.warning("no answer from the learner at %s for %.0f s; waiting for it", self._access.address, waited)

    def _wait(self) -> None:
        poller = zmq.Poller()
        poller.register(self._link.socket, zmq.POLLIN)
        poller.register(self._signals, zmq.POLLIN)
        seconds = min(self._core.deadline, self._notifier.deadline) - time.monotonic()
        poller.poll(max(1, math.ceil(1e3 * min(max(0.0, seconds), WAIT_SECONDS))))

    def _play(self, player: Player) -> None:
        try:
            complete = player.advance(time.monotonic() + SERVICE_SECONDS)
        except (RefusedError, ConfigurationError):  # trying again would not help
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
            self._core.membership.unsent(time.monotonic())

    def _prepare(self, effect: Prepare) -> None:
        welcome, settings = effect.welcome, effect.settings
        for named in (settings.environment.id, settings.network.kind):
            check_module(named, self._modules)
        self._close_player()
        self._core.player = build(welcome, settings, effect.body, self._core.outbox)
        if welcome.codec:  # a learner that chooses the actions broadcasts no weights
            self._subscribe(welcome.weights_port)
        self._playing = f"playing {settings.environment.id} x{settings.environment.num_envs} in run {welcome.run}"
        way = f"codec {welcome.codec}" if welcome.codec else "actions from the learner"
        _log.info("%s, epoch %d, %s", self._playing, welcome.epoch, way)
        self._notifier.ready(self._playing)

    def _subscribe(self, port: int) -> None:
        if self._subscriber is not None:
            if self._weights_port == port:
                return
            self._subscriber.close(linger=0)
        self._weights_port = port
        where = str(self._access.address.with_port(port))
        self._subscriber = sockets.subscriber(self._context, where, MAX_REPLY_BYTES, self._access.credential)
