"""The launcher as a process: one thread with one socket, and a background loop for each backend."""

import logging
import math
import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack

import zmq

from common.errors import EXIT_DONE, A3cdError
from common.host.load import LoadMeter
from common.host.security.access import LearnerEndpoint
from common.host.service import logs
from common.host.service.notify import Notifier
from common.host.service.signals import Signals
from common.host.service.standstill import Standstill
from common.wire.client import LearnerLink, introduce
from common.wire.membership import KEPT_OUT, Membership
from common.wire.messages import AnyMessage, FleetOrder, FleetReport, Goodbye, Refused, Stop, Welcome
from deploy.backends.background_loop import BackgroundLoop, close_all
from deploy.backends.base import Place, actor_name
from deploy.launcher.core import END_SECONDS, LOOK_SECONDS, LauncherCore
from deploy.launcher.reconciler import Slot

_log = logging.getLogger(__name__)


def run(
    access: LearnerEndpoint, places: Sequence[Place], *, name: str = "", prestart: int = 0, wait: float = 0.0
) -> int:
    """Runs actors for the learner at `access` until the learner says that the run is over, or a signal comes.

    There are at most as many actors as `places` have slots, and `prestart` of them before the first order. The learner
    may be absent, may refuse this launcher, and may come back later. `wait`: the longest time without a learner in
    seconds; 0: as long as it takes. Closes the backends; main thread only. Returns the exit code: 0, 75 (no learner
    for so long), 130 or 143 (signal).
    """
    with Signals() as signals, ExitStack() as stack:
        return _Launcher(access, places, name, prestart, wait, signals, stack).run()


class _Launcher:
    def __init__(
        self,
        access: LearnerEndpoint,
        places: Sequence[Place],
        name: str,
        prestart: int,
        wait: float,
        signals: Signals,
        stack: ExitStack,
    ) -> None:
        self._address = access.address
        self._signals = signals
        self._loops = [BackgroundLoop(place, signals.wake) for place in places]
        stack.callback(close_all, self._loops)
        self._outlives = all(place.backend.outlives for place in places)
        self._core = LauncherCore(
            [place.slots for place in places],
            [place.name for place in places],
            prestart,
            outlives=self._outlives,
            names={
                actor_name(place.actors, number): Slot(number, index)
                for index, place in enumerate(places)
                if place.actors  # the learner misses an actor by its name, so a guess would end one that plays
                for number in range(place.slots)
            },
        )
        hello = introduce("launcher", access, name, slots=self._core.slots)
        self._membership = Membership(hello, time.monotonic())
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        stack.callback(context.term)
        self._link = LearnerLink(context, access, LoadMeter())
        stack.callback(self._link.close)
        self._poller = zmq.Poller()
        self._poller.register(self._link.socket, zmq.POLLIN)
        self._poller.register(self._link.monitor, zmq.POLLIN)
        self._wait = wait
        self._poller.register(signals, zmq.POLLIN)
        self._notifier = Notifier()
        self._exit_code = EXIT_DONE
        self._connected = True
        """Until this launcher has said goodbye."""
        self._gave_up = False
        self._yielded = False
        """Whether a later launcher of this name has taken this one's place."""
        self._late = False
        """Whether it was said that the tools take long to ask actors to stop."""

    def run(self) -> int:
        self._notifier.ready(f"waiting for the learner at {self._address}")
        now = time.monotonic()
        standstill = Standstill(now)
        while not self._core.finished(now):
            self._poller.poll(math.ceil(1e3 * self._seconds(now)))
            now = time.monotonic()
            if stood := standstill.look(now):
                _log.warning(f"this launcher stood still for {stood:.0f} s: it was stopped, or its host suspended")
            self._take_signals(now)
            if self._connected:
                self._take_messages(now)
            for index in range(len(self._loops)):
                self._take_report(now, index)
            report = self._core.tick(now)
            if report is not None:
                self._report(report)
            for place in self._core.due(now):
                self._loops[place].wake()
            if self._connected:
                self._speak(now)
            self._say_late(now)
            self._notifier.watchdog(now)
        self._say_unasked()
        return self._exit_code

    def _seconds(self, now: float) -> float:
        """Longest wait for the next event, in seconds."""
        if self._core.stopping:
            return END_SECONDS
        deadline = min(self._core.deadline, self._membership.deadline, self._notifier.deadline)
        return min(max(0.0, deadline - now), LOOK_SECONDS)

    def _take_signals(self, now: float) -> None:
        self._signals.drain()
        if self._signals.requested is not None and self._exit_code == EXIT_DONE:
            self._exit_code = self._signals.exit_code
            self._end(now, keep=self._signals.requested != signal.SIGINT)
            self._leave(f"stopped by {signal.Signals(self._signals.requested).name}")

    def _end(self, now: float, keep: bool) -> None:
        """Begins the end. `keep`: actors that can go on without a launcher do so.

        A service manager stops a launcher in order to start it again, whereas Ctrl-C is to end everything.
        """
        if keep and self._outlives:
            self._core.detach()
        else:
            self._core.stop(now)

    def _take_messages(self, now: float) -> None:
        try:
            if self._link.watch(now, self._membership):
                self._membership.connected(now)
            for message, _ in self._link.receive():
                self._membership.handle(now, message)
                self._take(now, message)
                for slot in self._core.handle(now, message):
                    text = "an actor hangs: it is ended, and started again"
                    _log.warning(logs.line(text, **self._where(slot.place), slot=slot.number))
            self._membership.give_up(now, self._wait)
        except A3cdError as error:
            self._exit_code = logs.fail(error)
            self._end(now, keep=True)
        if self._core.stopping:
            self._leave("told to")

    def _take(self, now: float, message: AnyMessage) -> None:
        match message:
            case Welcome(run=name, epoch=epoch):
                self._yielded = False
                _log.info(logs.line(f"welcomed by the learner at {self._address}", run=name, epoch=epoch))
            case FleetOrder(actors=actors, why=why) if min(actors, self._core.slots) != self._core.wanted:
                _log.info(logs.line("the learner orders", actors=actors, slots=self._core.slots, why=why))
            case Refused(code="replaced", reason=reason) if not self._yielded:
                self._yielded = True
                what = "leaves the actors alone" if self._outlives else "stops its actors"
                _log.warning(f"this launcher {what}, until the other has gone: {reason}")
            case Stop(reason=reason, final=True):
                _log.info(f"the run is over: {reason}")
            case Stop(reason=reason):
                _log.info(f"the learner pauses ({reason}); actors go on, waiting for it to come back")
                self._membership.lost(now)

    def _leave(self, reason: str) -> None:
        """Says goodbye to the learner, once; from then on only the actors matter."""
        if self._connected:
            self._connected = False
            self._link.send(Goodbye(reason=reason))
            self._poller.unregister(self._link.socket)
            self._poller.unregister(self._link.monitor)
            self._notifier.stopping(reason)
            _log.info(logs.line("leaving", why=reason, actors=self._core.actors))

    def _say_late(self, now: float) -> None:
        """Says once why this launcher does not end yet, and how to end it."""
        seconds = self._core.late_seconds(now)
        if seconds and not self._late:
            self._late = True
            for place, actors in self._core.unasked.items():
                text = (
                    f"actors cannot be asked to stop yet; tries for {seconds:.0f} s, a second Ctrl-C ends this launcher"
                )
                _log.warning(logs.line(text, **self._where(place), actors=actors or "unknown"))

    def _say_unasked(self) -> None:
        """Names the actors that this launcher leaves behind although they were to end."""
        for place, actors in self._core.unasked.items():
            why = self._core.problems[place] or "no answer"
            text = "these actors were not asked to stop, and play on"
            if actors is None:
                text = "if there are actors, they were not asked to stop, and play on"
            _log.error(logs.line(f"gave up: {text}", **self._where(place), actors=actors or "unknown", why=why))

    def _take_report(self, now: float, index: int) -> None:
        loop = self._loops[index]
        report = loop.report()
        if report is None:
            return
        before = self._core.problems[index]
        step = self._core.observe(now, index, report)
        loop.answer(step.requests)
        host, where = loop.place.name, self._where(index)
        for slot in step.found:
            _log.info(logs.line("found an actor at work", **where, slot=slot.number))
        for end in step.failures:
            _log.warning(logs.line("an actor ended", **where, slot=end.slot, exit_code=end.exit_code))
        problem = self._core.problems[index]
        if problem and problem != before:
            _log.warning(f"{host}: {problem}" if host else problem)

    def _where(self, index: int) -> dict[str, str]:
        host = self._loops[index].place.name
        return {"host": host} if host else {}

    def _report(self, report: FleetReport) -> None:
        if report.gave_up and not self._gave_up:
            _log.error(f"no actor can run; one tries again in {report.retry_seconds} s, then ever later: {report.why}")
        if self._gave_up and not report.gave_up:
            _log.info("actors can run again")
        self._gave_up = report.gave_up
        if self._connected:
            why = "" if self._membership.member else self._membership.obstacle
            text = f"{report.running} of {report.slots} actors {report.why}".rstrip()
            self._notifier.status(f"{KEPT_OUT}{why}" if why else text)
            if self._membership.member:
                self._link.send(report)

    def _speak(self, now: float) -> None:
        """Sends hello or a heartbeat when it is due, and logs when no learner answers."""
        actors = self._core.actors
        message = self._membership.tick(now, state=f"{actors} actors")
        if message is not None and not self._link.send(message):
            self._membership.unsent(now)
        waited = self._membership.notice(now)
        if waited is None:
            return
        text = f"no learner at {self._address} for {waited:.0f} s; waiting"
        if why := self._membership.obstacle:
            text = f"{why}; trying again, ever more slowly"
            self._notifier.status(f"{KEPT_OUT}{why}")
        _log.warning(logs.line(text, actors=actors))
