"""The evaluator daemon, the shell of the core: one thread that plays, and between steps looks after its socket."""

import importlib
import logging
import math
import time
from collections.abc import Collection

import zmq

from actor.core import SERVICE_SECONDS, WAIT_SECONDS
from actor.daemon import REPEAT_SECONDS, WATCH_SECONDS
from actor.effects import Effect, Leave, Prepare, Warn
from actor.evaluator.core import EvaluatorCore
from actor.outbox import Send
from common.errors import EXIT_DONE, A3cdError, ConfigurationError, RefusedError
from common.host.heap import Heap
from common.host.modules import check_module
from common.host.security.access import LearnerEndpoint
from common.host.service.logs import Limited, again
from common.host.service.notify import Notifier
from common.host.service.signals import Signals
from common.wire.client import LearnerLink, introduce
from common.wire.membership import KEPT_OUT, Membership

_log = logging.getLogger("evaluator")


def run(access: LearnerEndpoint, *, name: str = "", modules: Collection[str] = (), wait: float = 0.0) -> int:
    """Evaluates for the learner at `access` until the run is over or a signal comes; returns the exit code.

    A learner that is absent, or refuses this evaluator, is asked again, ever more slowly. The arguments are those of
    `actor.daemon.run`, and so are the errors.
    """
    with Signals() as signals:
        return _Daemon(access, name, modules, wait, signals).run()


class _Daemon:
    def __init__(
        self, access: LearnerEndpoint, name: str, modules: Collection[str], wait: float, signals: Signals
    ) -> None:
        hello = introduce("evaluator", access, name)
        self._access = access
        self._modules = modules
        self._wait_limit = wait
        self._signals = signals
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._link = LearnerLink(self._context, access)
        self._core = EvaluatorCore(hello, time.monotonic())
        self._limited = Limited(REPEAT_SECONDS)
        self._heap = Heap()
        self._left = ""
        self._notifier = Notifier()
        self._watch_due = -math.inf
        """When the connection is looked at next; at once after a wait, which it may have ended."""
        self._told = ""
        """The service manager."""
        self._evaluating = ""
        self._poller = zmq.Poller()
        for one in (self._link.socket, self._link.monitor, signals):
            self._poller.register(one, zmq.POLLIN)

    def run(self) -> int:
        try:
            self._service()
            importlib.import_module("actor.evaluator.player")  # numpy, gymnasium: while it is not welcome yet
            while not self._left and self._signals.requested is None:
                self._service()
                if self._core.playing:
                    self._play()
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
            self._link.close()
            self._context.term()

    def _close_player(self) -> None:
        if self._core.player is not None:
            self._core.player.close()
        self._core.player = None

    def _service(self) -> None:
        """Messages, heartbeats, the service manager, the operator."""
        now = time.monotonic()
        membership = self._core.membership
        if now >= self._watch_due:
            self._watch_due = now + WATCH_SECONDS
            if self._link.watch(now, membership):
                self._core.connected(now)
        for message, body in self._link.receive():
            self._do(self._core.handle(time.monotonic(), message, body))
        now = time.monotonic()
        self._do(self._core.tick(now))
        self._heap.look(now)
        self._notifier.watchdog(now)
        membership.give_up(now, self._wait_limit)
        self._tell(now, membership)

    def _tell(self, now: float, membership: Membership) -> None:
        """The service manager and the operator, whether there is a learner and why not."""
        obstacle = membership.obstacle
        waiting = f"{KEPT_OUT}{obstacle}" if obstacle else f"waiting for the learner at {self._access.address}"
        told = self._evaluating if membership.member else waiting
        if told != self._told:
            self._told = told
            self._notifier.status(told)
        if (waited := membership.notice(now)) is not None:
            why = obstacle or f"no answer from the learner at {self._access.address} for {waited:.0f} s"
            _log.warning("%s; trying again, ever more slowly", why)

    def _wait(self) -> None:
        seconds = min(self._core.deadline, self._notifier.deadline) - time.monotonic()
        self._poller.poll(max(1, math.ceil(1e3 * min(max(0.0, seconds), WAIT_SECONDS))))
        self._watch_due = -math.inf

    def _play(self) -> None:
        player = self._core.player
        assert player is not None
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
                    if not self._link.send(effect.message, effect.body):
                        self._core.unsent(time.monotonic(), effect)
                case Warn():
                    held = self._limited.admit(effect.text, time.monotonic())
                    if held is not None:
                        _log.warning("%s%s", effect.text, again(held))
                case Prepare():
                    self._prepare(effect)
                case Leave():
                    self._left = effect.reason

    def _prepare(self, effect: Prepare) -> None:
        from actor.evaluator.player import EvaluationPlayer

        welcome, settings = effect.welcome, effect.settings
        for named in (settings.environment.id, settings.network.kind):
            check_module(named, self._modules)
        self._close_player()
        try:
            self._core.player = EvaluationPlayer(welcome, settings)
        except RefusedError as error:
            self._do(self._core.refuse(time.monotonic(), str(error)))
            return
        self._core.membership.alive(time.monotonic())  # it was not listened to meanwhile
        self._evaluating = f"evaluating {settings.environment.id} in run {welcome.run}"
        _log.info("%s, epoch %d, %d episodes at a time", self._evaluating, welcome.epoch, settings.evaluation.episodes)
        self._notifier.ready(self._evaluating)
