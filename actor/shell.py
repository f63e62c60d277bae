"""The shell of an actor's or an evaluator's core: one thread that plays, and serves its sockets between steps.

Each of the two daemons derives from it, and adds how its player is made and what else it listens to.
"""

import importlib
import logging
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import ClassVar

import zmq

from actor.core import SERVICE_SECONDS, WAIT_SECONDS
from actor.effects import Effect, Leave, Prepare, Warn
from actor.outbox import Send
from actor.telling import Telling
from actor.worker_core import Playing, WorkerCore
from common.errors import EXIT_DONE, A3cdError, ConfigurationError, RefusedError
from common.host.heap import Heap
from common.host.load import LoadMeter
from common.host.modules import check_module
from common.host.security.access import LearnerEndpoint
from common.host.service.logs import Limited, again
from common.host.service.notify import Notifier
from common.host.service.signals import Signals
from common.settings.own_code import own_code
from common.wire.client import LearnerLink

WATCH_SECONDS = 0.1
"""Interval between two checks of the connection while playing: a check costs as much as a step of a small network."""
QUEUE_WAIT_MS = 1000
"""Longest wait for room in the network's queue."""
REPEAT_SECONDS = 60.0
"""Interval between two log lines for the same failure; the second says how often it happened in between."""


class Shell(ABC):
    """One daemon, from its first hello to its goodbye."""

    players: ClassVar[str]
    """The module of the daemon's players, which loads numpy and gymnasium; imported while the hello is under way."""

    def __init__(
        self, core: WorkerCore, access: LearnerEndpoint, modules: Collection[str], wait: float, signals: Signals
    ) -> None:
        """modules, wait: as in `run` of `actor.daemon`."""
        self._core = core
        self._access = access
        self._modules = modules
        self._signals = signals
        self._log = logging.getLogger(core.membership.hello.role)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._link = LearnerLink(self._context, access, LoadMeter())
        self._poller = zmq.Poller()
        for one in (self._link.socket, self._link.monitor, signals):
            self._poller.register(one, zmq.POLLIN)
        self._limited = Limited(REPEAT_SECONDS)
        self._heap = Heap()
        self._notifier = Notifier()
        self._left = ""
        self._watch_due = -math.inf
        """When to check the connection next; at once after a wait, which a change of the connection may have ended."""
        self._telling = Telling(self._log, self._notifier, access.address, wait)

    def run(self) -> int:
        try:
            self._service()
            importlib.import_module(self.players)
            while not self._left and self._signals.requested is None:
                self._service()
                player = self._core.player
                if player is not None and self._core.ready:
                    self._play(player)
                else:
                    self._wait()
            if self._signals.requested is not None:
                self._do(self._core.leave("stopped by a signal"))
                return self._signals.exit_code
            self._log.info("done: %s", self._left)
            return EXIT_DONE
        except A3cdError as error:
            self._do(self._core.leave(str(error)))
            raise
        finally:
            self._notifier.stopping(self._left)
            self._close()

    # -- each daemon implements or extends these -----------------------------------------------------------------------

    @abstractmethod
    def _make_player(self, prepare: Prepare) -> Playing:
        """Raises EnvironmentMissingError if this host cannot play, RefusedError if it would build another network."""

    @abstractmethod
    def _begin(self, prepare: Prepare) -> tuple[str, str]:
        """Starts work with the new player. Returns what the daemon does now, and how, in words for the operator."""

    def _watch(self, now: float) -> None:
        """Checks the connection."""
        if self._link.watch(now, self._core.membership):
            self._core.connected(now)

    def _listen(self) -> None:
        """Handles the learner's messages."""
        for message, body in self._link.receive():
            self._do(self._core.handle(time.monotonic(), message, body))

    def _tell(self, now: float) -> None:
        """Tells the service manager and the operator whether there is a learner, and if not, why."""
        self._telling.look(now, self._core.membership)

    def _close(self) -> None:
        self._close_player()
        self._link.close()
        self._context.term()

    # ------------------------------------------------------------------------------------------------------------------

    def _service(self) -> None:
        """Handles messages, sends heartbeats, and informs the service manager and the operator."""
        now = time.monotonic()
        if now >= self._watch_due:
            self._watch_due = now + WATCH_SECONDS
            self._watch(now)
        self._listen()
        now = time.monotonic()
        self._do(self._core.tick(now))
        self._heap.look(now)
        self._notifier.watchdog(now)
        self._tell(now)

    def _wait(self) -> None:
        seconds = min(self._core.deadline, self._notifier.deadline) - time.monotonic()
        self._poller.poll(max(1, math.ceil(1e3 * min(max(0.0, seconds), WAIT_SECONDS))))
        self._signals.drain()  # an environment may handle signals of its own
        self._watch_due = -math.inf

    def _play(self, player: Playing) -> None:
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
                        self._log.warning("%s%s", effect.text, again(held))
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
        for named in own_code(effect.settings):
            check_module(named, self._modules)
        self._close_player()
        try:
            self._core.player = self._make_player(effect)
        except RefusedError as error:
            self._do(self._core.refuse(time.monotonic(), str(error)))
            return
        self._core.membership.alive(time.monotonic())  # nobody read its messages while the player was made
        self._telling.doing, how = self._begin(effect)
        self._log.info("%s, epoch %d, %s", self._telling.doing, effect.welcome.epoch, how)
        self._notifier.ready(self._telling.doing)

    def _close_player(self) -> None:
        if self._core.player is not None:
            self._core.player.close()
        self._core.player = None
