"""The actor daemon: one thread that plays, and between steps looks after its sockets; round the pure core."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Collection
from typing import TYPE_CHECKING

import msgspec
import zmq

from actor.core import ActorCore, Effect, Forget, Leave, Load, Prepare, Reship, Send, Ship
from common.errors import EXIT_DONE, A3cdError, RefusedError, UnavailableError, WireError
from common.host.modules import check_module
from common.host.security.access import LearnerEndpoint
from common.host.service.logs import Limited, again
from common.host.service.notify import Notifier
from common.host.service.signals import Signals
from common.settings.codec_names import NAMES
from common.settings.sections import Settings
from common.wire import sockets
from common.wire.bodies.broadcast import Broadcast
from common.wire.client import MAX_REPLY_BYTES, LearnerLink, introduce
from common.wire.frames import Buffer
from common.wire.messages import Welcome

if TYPE_CHECKING:
    from actor.players.environments import Remote
    from actor.players.gradients import Work

_log = logging.getLogger("actor")
SERVICE_SECONDS = 0.02
"""How long an actor plays at most before it looks at its sockets; a rollout is usually over sooner."""
WAIT_SECONDS = 1.0
FAILURES_IN_A_ROW, FAILING_SECONDS = 10, 2.0
"""So many rollouts lost one after the other, to an environment that raises or gives NaN, and none won for so long: the
actor gives up. The number alone is soon reached where rollouts last a millisecond."""
REPEAT_SECONDS = 60.0
"""A failure is logged once in so long, with the count of those between."""


def run(access: LearnerEndpoint, *, name: str = "", launcher: str = "", modules: Collection[str] = ()) -> int:
    """Plays for the learner at `access` until the run is over or a signal comes; returns the exit code.

    `modules` may be imported if the learner names them, as where the environment or the network is; others may not.
    Raises RefusedError when the learner will not have it, EnvironmentMissingError where this host cannot play,
    UnavailableError when the environment keeps failing.
    """
    with Signals() as signals:
        return _Daemon(access, name, launcher, modules, signals).run()


class _Daemon:
    def __init__(
        self, access: LearnerEndpoint, name: str, launcher: str, modules: Collection[str], signals: Signals
    ) -> None:
        hello = introduce("actor", access, name, launcher=launcher, codecs=NAMES)
        self._access, self._modules, self._signals = access, modules, signals
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._link = LearnerLink(self._context, access, hello)
        self._subscriber: zmq.Socket[bytes] | None = None
        self._weights_port = 0
        self._core = ActorCore(hello, time.monotonic())
        self._work: Work | None = None
        self._remote: Remote | None = None
        self._bodies: dict[int, bytes] = {}
        self._failures = 0
        self._failing_since = 0.0
        self._lost = False
        self._limited = Limited(REPEAT_SECONDS)
        self._left = ""
        self._notifier = Notifier()
        self._joined: bool | None = None
        self._playing = ""

    def run(self) -> int:
        """The loop; returns the exit code."""
        try:
            while not self._left and self._signals.requested is None:
                self._service()
                working = self._core.state == "working"
                if working and self._work is not None:
                    self._play(self._work)
                elif working and self._remote is not None and self._remote.ready:
                    self._step(self._remote)
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
            self._close()

    def _close_players(self) -> None:
        for player in (self._work, self._remote):
            if player is not None:
                player.close()
        self._work = self._remote = None

    def _close(self) -> None:
        self._close_players()
        if self._subscriber is not None:
            self._subscriber.close(linger=0)
        self._link.close()
        self._context.term()

    def _service(self) -> None:
        """Everything that is not playing: messages, weights, heartbeats, the operator."""
        for message, body in self._link.receive():
            self._do(self._core.handle(time.monotonic(), message, body))
            if self._remote is not None:
                self._remote.handle(message, body)
        self._listen()
        now = time.monotonic()
        self._do(self._core.tick(now))
        if self._remote is not None and self._core.membership.member:
            for again_asked, packed in self._remote.due(now):
                self._link.send(again_asked, packed)
        self._notifier.watchdog(now)
        self._tell()
        waited = self._core.membership.notice(now)
        if waited is not None:
            _log.warning("no answer from the learner at %s for %.0f s; waiting for it", self._access.address, waited)

    def _tell(self) -> None:
        """To the service manager, whether it plays or waits, whenever that changes."""
        if self._joined is not self._core.membership.member:
            self._joined = self._core.membership.member
            self._notifier.status(
                self._playing if self._joined else f"waiting for the learner at {self._access.address}"
            )

    def _listen(self) -> None:
        """Reads the broadcast until it is empty; CONFLATE leaves at most the newest, a reconnect may bring an older."""
        while self._subscriber is not None:
            try:
                frame = self._subscriber.recv(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            try:
                news = Broadcast.unpack(frame.buffer)
            except WireError as error:
                self._core.trouble = str(error)
                continue
            delta = news.format == "delta"
            self._do(self._core.broadcast(time.monotonic(), news.run, news.epoch, news.version, news.body, delta=delta))

    def _wait(self) -> None:
        poller = zmq.Poller()
        poller.register(self._link.socket, zmq.POLLIN)
        poller.register(self._signals, zmq.POLLIN)
        due = min(self._core.deadline, self._notifier.deadline)
        if self._remote is not None and self._core.membership.member:
            due = min(due, self._remote.deadline)
        due -= time.monotonic()
        poller.poll(max(1, math.ceil(1e3 * min(due, WAIT_SECONDS))))

    def _play(self, work: Work) -> None:
        try:
            if self._lost:
                work.restart()
                self._lost = False
            harvest = work.advance(time.monotonic() + SERVICE_SECONDS)
        except RefusedError:
            raise
        except A3cdError as error:
            self._failed(error)
            return
        if work.trouble:
            self._report(work.trouble)
            work.trouble = ""
        if harvest is not None:
            self._failures = 0
            self._do(self._core.harvested(time.monotonic(), harvest))
            self._tell_of_trial(work)

    def _tell_of_trial(self, work: Work) -> None:
        trial = None if work.timing is None else work.timing.trial()
        if trial is not None and (told := self._core.tried(trial)):
            work.timing = None
            self._do(told)

    def _step(self, remote: Remote) -> None:
        try:
            message, body = remote.advance()
        except A3cdError as error:
            self._failed(error)
            return
        self._link.send(message, body)
        if remote.well:
            self._failures = 0
        if remote.trouble:
            self._report(remote.trouble)
            remote.trouble = ""

    def _failed(self, error: A3cdError) -> None:
        """The rollout is lost; new episodes are begun, unless this happens time after time."""
        now = time.monotonic()
        if not self._failures:
            self._failing_since = now
        self._failures += 1
        self._lost = True
        self._report(str(error))
        if self._failures >= FAILURES_IN_A_ROW and now - self._failing_since >= FAILING_SECONDS:
            raise UnavailableError(f"gave up after {self._failures} rollouts lost in a row: {error}")

    def _report(self, trouble: str) -> None:
        """Something went wrong and was survived: the learner hears of it, and now and then the log."""
        self._core.trouble = trouble
        held = self._limited.admit(trouble, time.monotonic())
        if held is not None:
            _log.warning("%s%s", trouble, again(held))

    def _do(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send():
                    if not self._link.send(effect.message):
                        self._core.membership.unsent(time.monotonic())
                case Ship():
                    self._ship(effect)
                case Reship():
                    if body := self._bodies.get(effect.header.sequence):
                        self._link.send(effect.header, body)
                case Load():
                    if self._work is not None:
                        self._work.offer(effect.version, effect.body, delta=effect.delta)
                case Forget(sequence=0):
                    self._bodies.clear()
                    if self._work is not None:
                        self._work.forget()
                case Forget():
                    self._bodies.pop(effect.sequence, None)
                    if self._work is not None:
                        self._work.answered(effect.sequence, dropped=effect.dropped)
                case Prepare():
                    self._prepare(effect)
                case Leave():
                    self._left = effect.reason

    def _ship(self, effect: Ship) -> None:
        assert self._work is not None
        kept = self._core.keeps_unanswered
        body = self._work.pack(effect.header.sequence if kept else None)
        sent = self._link.send(effect.header, body)
        if kept:
            self._bodies[effect.header.sequence] = body
        elif not sent:
            # Without credit's bound the network's own queue is the only one; full, it holds the actor back.
            self._link.socket.poll(1000, zmq.POLLOUT)
            self._link.send(effect.header, body)

    def _prepare(self, effect: Prepare) -> None:
        welcome = effect.welcome
        settings = msgspec.convert(welcome.settings, Settings)
        for named in (settings.environment.id, settings.network.kind):
            check_module(named, self._modules)
        self._close_players()
        if settings.exchange.kind == "actions":
            from actor.players.environments import Remote

            self._remote = Remote(welcome, settings)
        else:
            self._prepare_work(welcome, settings, effect.body)
        self._playing = f"playing {settings.environment.id} x{settings.environment.num_envs} in run {welcome.run}"
        way = f"codec {welcome.codec}" if welcome.codec else "actions from the learner"
        _log.info("%s, epoch %d, %s", self._playing, welcome.epoch, way)
        self._notifier.ready(self._playing)

    def _prepare_work(self, welcome: Welcome, settings: Settings, body: Buffer | None) -> None:
        import torch  # seconds of import, which an actor that only holds environments does not need

        from actor.players.gradients import Work

        torch.set_num_threads(1)
        torch.set_flush_denormal(True)
        self._work = Work(welcome, settings, body)
        lockstep = settings.staleness.policy == "synchronous"
        trajectories = settings.exchange.kind == "trajectories"
        self._core.configure(0 if lockstep else settings.exchange.accumulate, trajectories=trajectories)
        if self._subscriber is None or self._weights_port != welcome.weights_port:
            if self._subscriber is not None:
                self._subscriber.close(linger=0)
            self._weights_port = welcome.weights_port
            where = str(self._access.address.with_port(welcome.weights_port))
            self._subscriber = sockets.subscriber(self._context, where, MAX_REPLY_BYTES, self._access.credential)
