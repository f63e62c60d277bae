"""The launcher as a process: one thread, one socket, a way to start actors."""

from __future__ import annotations

import logging
import math
import signal
import time
from contextlib import ExitStack

import zmq

from common.errors import EXIT_DONE, RefusedError
from common.host.addresses import Address
from common.host.security.access import LearnerEndpoint
from common.host.service import logs
from common.host.service.notify import Notifier
from common.host.service.signals import Signals
from common.wire.client import LearnerLink, introduce
from common.wire.membership import Membership
from common.wire.messages import AnyMessage, FleetOrder, FleetReport, Goodbye, Stop, Welcome
from deploy.backends.base import Backend, Found
from deploy.launcher.core import LauncherCore
from deploy.launcher.slot import StartActor, StopActor

_REAP_SECONDS = 0.1
"""How often children are looked at: portable, and two system calls each."""
_IDLE_SECONDS = 1.0
_log = logging.getLogger(__name__)


def run(access: LearnerEndpoint, *, slots: int, backend: Backend, name: str = "", warm: int = 0) -> int:
    """Runs actors for the learner at `access` until it says that the run is over, or a signal comes.

    At most `slots` actors, and `warm` of them before the first order. The learner need not be there, and may come
    back later. Closes `backend`; main thread only. Returns the exit code: 0, 78 (refused), 130 or 143 (signal).
    """
    with Signals() as signals, ExitStack() as stack:
        stack.callback(backend.close)
        hello = introduce("launcher", access, name, slots=slots)
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        stack.callback(context.term)
        link = LearnerLink(context, access, hello)
        stack.callback(link.close)
        membership = Membership(hello, time.monotonic())
        hosts = [backend.host(slot) for slot in range(slots)]
        return _Launcher(link, membership, LauncherCore(slots, warm, hosts), backend, signals, access.address).run()


class _Launcher:
    """The loop: wait, take note of what happened, do what the core says."""

    def __init__(
        self,
        link: LearnerLink,
        membership: Membership,
        core: LauncherCore,
        backend: Backend,
        signals: Signals,
        address: Address,
    ) -> None:
        self._link = link
        self._membership = membership
        self._core = core
        self._backend = backend
        self._signals = signals
        self._address = address
        self._notifier = Notifier()
        self._exit_code = EXIT_DONE
        self._connected = True
        """Until this launcher has said goodbye."""
        self._gave_up = False
        self._trouble = ""
        self._poller = zmq.Poller()
        self._poller.register(link.socket, zmq.POLLIN)
        self._poller.register(signals, zmq.POLLIN)

    def run(self) -> int:
        """The exit code."""
        self._notifier.ready(f"waiting for the learner at {self._address}")
        now = time.monotonic()
        while not self._core.finished(now):
            self._poller.poll(self._patience(now))
            now = time.monotonic()
            self._take_signals(now)
            self._take_messages(now)
            self._take_ended(now)
            self._act(now)
            self._speak(now)
            self._notifier.watchdog(now)
        return self._exit_code

    def _patience(self, now: float) -> int:
        """Milliseconds until there is something to do."""
        speak = self._membership.deadline if self._connected else math.inf
        due = min(self._core.deadline, speak, self._notifier.deadline) - now
        longest = _REAP_SECONDS if self._backend.running else _IDLE_SECONDS
        return math.ceil(1000 * max(0.0, min(due, longest)))

    def _take_signals(self, now: float) -> None:
        self._signals.drain()
        if self._signals.requested is not None and self._exit_code == EXIT_DONE:
            self._exit_code = self._signals.exit_code
            self._end(now, keep=self._signals.requested != signal.SIGINT)
            self._leave(f"stopped by {signal.Signals(self._signals.requested).name}")

    def _end(self, now: float, keep: bool) -> None:
        """`keep` actors that can live on: a service manager stops a launcher to start it again, a Ctrl-C means all."""
        if keep and self._backend.outlives:
            self._core.detach()
        else:
            self._core.stop(now)

    def _take_messages(self, now: float) -> None:
        if not self._connected:
            return
        try:
            for message, _ in self._link.receive():
                self._membership.handle(now, message)
                self._tell(message)
                self._core.handle(now, message)
                if isinstance(message, Stop) and not message.final:
                    self._membership.lost(now)
        except RefusedError as error:
            self._exit_code = logs.fail(error)
            self._end(now, keep=True)
        if self._core.stopping:
            self._leave("told to")

    def _tell(self, message: AnyMessage) -> None:
        """The operator, of a message that changes something."""
        match message:
            case Welcome(run=name, epoch=epoch):
                _log.info(logs.line(f"welcomed by the learner at {self._address}", run=name, epoch=epoch))
            case FleetOrder(actors=actors, why=why) if min(actors, self._core.slots) != self._core.wanted:
                _log.info(logs.line("the learner orders", actors=actors, slots=self._core.slots, why=why))
            case Stop(reason=reason, final=True):
                _log.info(f"the run is over: {reason}")
            case Stop(reason=reason):
                _log.info(f"the learner pauses ({reason}); actors go on, waiting for it to come back")
            case _:
                pass

    def _leave(self, reason: str) -> None:
        """Says goodbye, once; from then on only the actors matter."""
        if self._connected:
            self._connected = False
            self._link.send(Goodbye(reason=reason))
            self._poller.unregister(self._link.socket)
            self._notifier.stopping(reason)
            _log.info(logs.line("leaving", why=reason, actors=len(self._backend.running)))

    def _take_ended(self, now: float) -> None:
        for event in self._backend.poll():
            if isinstance(event, Found):
                self._core.found(now, event.slot)
                _log.info(logs.line("found an actor at work", slot=event.slot))
            elif self._core.ended(now, event):
                _log.warning(logs.line("an actor ended", slot=event.slot, exit_code=event.exit_code))

    def _act(self, now: float) -> None:
        self._look_at_backend(now)
        for effect in self._core.tick(now):
            match effect:
                case StartActor(slot=slot):
                    self._backend.start(slot)
                case StopActor(slot=slot, kill=kill):
                    self._backend.stop(slot, kill)
                case FleetReport():
                    self._report(effect)
        if self._core.ordered:
            self._backend.wish(self._core.wanted)

    def _look_at_backend(self, now: float) -> None:
        condition = self._backend.condition
        self._core.observe(now, condition)
        if condition.trouble and condition.trouble != self._trouble:
            _log.warning(condition.trouble)
        self._trouble = condition.trouble

    def _report(self, report: FleetReport) -> None:
        if report.gave_up and not self._gave_up:
            _log.error(f"no more actors are started: {report.why}")
        self._gave_up = report.gave_up
        if self._connected:
            self._notifier.status(f"{report.running} of {report.slots} actors {report.why}".rstrip())
            if self._membership.member:
                self._link.send(report)

    def _speak(self, now: float) -> None:
        """Hello or heartbeat, and a word to the operator who waits."""
        if not self._connected:
            return
        message = self._membership.tick(now, state=f"{len(self._backend.running)} actors")
        if message is not None and not self._link.send(message):
            self._membership.unsent(now)
        waited = self._membership.notice(now)
        if waited is not None:
            running = len(self._backend.running)
            _log.warning(logs.line(f"no learner at {self._address} for {waited:.0f} s; waiting", actors=running))
