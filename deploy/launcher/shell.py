"""The launcher as a process: one thread with one socket, and a background loop for each backend."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Sequence
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
from deploy.backends.background_loop import BackgroundLoop, close_all
from deploy.backends.base import Place
from deploy.launcher.core import LauncherCore

LOOK_MILLISECONDS = 50
"""How often the background loops are asked for a report, and all deadlines are looked at."""
_log = logging.getLogger(__name__)


def run(access: LearnerEndpoint, places: Sequence[Place], *, name: str = "", prestart: int = 0) -> int:
    """Runs actors for the learner at `access` until it says that the run is over, or a signal comes.

    At most as many as `places` have slots, and `prestart` of them before the first order. The learner need not be
    there, and may come back later. Closes the backends; main thread only. Returns the exit code: 0, 78 (refused), 130
    or 143 (signal).
    """
    with Signals() as signals, ExitStack() as stack:
        loops = [BackgroundLoop(place) for place in places]
        stack.callback(close_all, loops)
        hello = introduce("launcher", access, name, slots=sum(place.slots for place in places))
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        stack.callback(context.term)
        link = LearnerLink(context, access, hello)
        stack.callback(link.close)
        core = LauncherCore([place.slots for place in places], [place.name for place in places], prestart)
        return _Launcher(link, Membership(hello, time.monotonic()), core, loops, signals, access.address).run()


class _Launcher:
    """The loop: wait, take note of what happened, hand out requests and reports."""

    def __init__(
        self,
        link: LearnerLink,
        membership: Membership,
        core: LauncherCore,
        loops: Sequence[BackgroundLoop],
        signals: Signals,
        address: Address,
    ) -> None:
        self._link = link
        self._membership = membership
        self._core = core
        self._loops = loops
        self._signals = signals
        self._address = address
        self._notifier = Notifier()
        self._exit_code = EXIT_DONE
        self._connected = True
        """Until this launcher has said goodbye."""
        self._gave_up = False
        self._problems = [""] * len(loops)
        self._poller = zmq.Poller()
        self._poller.register(link.socket, zmq.POLLIN)
        self._poller.register(signals, zmq.POLLIN)

    def run(self) -> int:
        """Until the core has finished; returns the exit code."""
        for loop in self._loops:
            loop.start()
        self._notifier.ready(f"waiting for the learner at {self._address}")
        now = time.monotonic()
        while not self._core.finished(now):
            self._poller.poll(LOOK_MILLISECONDS)
            now = time.monotonic()
            self._take_signals(now)
            self._take_messages(now)
            self._take_reports(now)
            report = self._core.tick(now)
            if report is not None:
                self._report(report)
            for place in self._core.due(now):
                self._loops[place].wake()
            self._speak(now)
            self._notifier.watchdog(now)
        return self._exit_code

    def _take_signals(self, now: float) -> None:
        self._signals.drain()
        if self._signals.requested is not None and self._exit_code == EXIT_DONE:
            self._exit_code = self._signals.exit_code
            self._end(now, keep=self._signals.requested != signal.SIGINT)
            self._leave(f"stopped by {signal.Signals(self._signals.requested).name}")

    def _end(self, now: float, keep: bool) -> None:
        """`keep`: actors that can go on do. A service manager stops a launcher to start it again; a Ctrl-C ends all."""
        if keep and all(loop.place.backend.outlives for loop in self._loops):
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
        """Logs a message that changes something."""
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
        """Says goodbye to the learner, once; from then on only the actors matter."""
        if self._connected:
            self._connected = False
            self._link.send(Goodbye(reason=reason))
            self._poller.unregister(self._link.socket)
            self._notifier.stopping(reason)
            _log.info(logs.line("leaving", why=reason, actors=self._core.actors))

    def _take_reports(self, now: float) -> None:
        for index, loop in enumerate(self._loops):
            report, place = loop.report(), loop.place
            if report is None:
                continue
            step = self._core.observe(now, index, report)
            loop.answer(step.requests)
            where = {"host": place.name} if place.name else {}
            for slot in step.found:
                _log.info(logs.line("found an actor at work", **where, slot=slot.number))
            for end in step.failures:
                _log.warning(logs.line("an actor ended", **where, slot=end.slot, exit_code=end.exit_code))
            problem = self._core.problems[index]
            if problem and problem != self._problems[index]:
                _log.warning(f"{place.name}: {problem}" if place.name else problem)
            self._problems[index] = problem

    def _report(self, report: FleetReport) -> None:
        if report.gave_up and not self._gave_up:
            _log.error(f"no more actors are started: {report.why}")
        self._gave_up = report.gave_up
        if self._connected:
            self._notifier.status(f"{report.running} of {report.slots} actors {report.why}".rstrip())
            if self._membership.member:
                self._link.send(report)

    def _speak(self, now: float) -> None:
        """Sends hello or heartbeat, and logs that no learner answers."""
        if not self._connected:
            return
        message = self._membership.tick(now, state=f"{self._core.actors} actors")
        if message is not None and not self._link.send(message):
            self._membership.unsent(now)
        waited = self._membership.notice(now)
        if waited is not None:
            running = self._core.actors
            _log.warning(logs.line(f"no learner at {self._address} for {waited:.0f} s; waiting", actors=running))
