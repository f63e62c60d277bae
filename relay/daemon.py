"""The relay daemon: one thread around the pure core, which owns the sockets to the learner and to the site."""

import logging
import math
import platform
import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack

import zmq

from actor.effects import Leave
from actor.outbox import Send as ToLearner
from actor.subscription import Subscription
from actor.telling import Telling
from common.errors import EXIT_DONE, A3cdError, WireError
from common.host.addresses import Address
from common.host.load import LoadMeter
from common.host.security.access import LearnerEndpoint
from common.host.service.logs import LineLimit, cut
from common.host.service.notify import Notifier
from common.host.service.signals import Signals
from common.settings.codec_names import NAMES
from common.wire import sockets
from common.wire.client import LearnerLink, introduce
from common.wire.codecs.registry import longest
from common.wire.frames import split
from learner.authentication import LearnerKeys
from learner.effects import Disconnect, Log, Publish
from learner.effects import Send as ToSite
from learner.ports import Ports, unread_messages
from learner.run import RunSpec
from relay.core import DISMISS_SECONDS, REMIND_SECONDS, RelayCore
from relay.effects import Effect, Serve

_log = logging.getLogger("relay")
DRAIN_SECONDS = 0.02
"""Longest time spent on reading the site's messages before it is the learner's turn."""
WAIT_SECONDS = 1.0
"""Longest wait before everything is checked again."""
WATCH_SECONDS = 0.1
"""Interval between two checks of the connection to the learner, unless an event of the connection comes first."""
PROGRESS_SECONDS = 1.0
"""Interval between two checks of how far long messages on the site's connections have come."""
REPEAT_SECONDS = 60.0
"""Interval between two log lines of the same kind; the second says how often it happened in between."""
LINES_PER_SECOND, LINES_AT_ONCE = 1.0, 100
"""Rate limit of the log lines that actors cause, and the longest burst of them."""


def run(
    access: LearnerEndpoint,
    *,
    bind: Address,
    keys: LearnerKeys | None,
    name: str = "",
    mbit: float = 0.0,
    wait: float = 0.0,
) -> int:
    """Relays between the learner at `access` and the actors that connect to `bind`, until the run is over or a signal
    comes; returns the exit code.

    Args:
        bind: where to listen; weights are passed on at the next port.
        keys: the keys that admit the site's actors; None: everybody may connect.
        name: shown in the learner's status; a relay that is started again should have the same name.
        mbit: bandwidth for weights in the site's network, in 10^6 bits a second; 0: as the run's settings say.
        wait: longest time without a learner, in seconds; 0: no limit.

    Raises ConfigurationError or UnavailableError if it cannot listen, RefusedError if the run takes no relays,
    UnavailableError after `wait`, or when the learner quarantines this relay.
    """
    with Signals() as signals, ExitStack() as stack:
        listeners = sockets.reserve_pair(bind)
        for listener in listeners:
            stack.callback(listener.close)
        hello = introduce("relay", access, name or platform.node() or "relay", codecs=NAMES)
        port = listeners[1].getsockname()[1]
        core = RelayCore(hello, time.monotonic(), learner=str(access.address), weights_port=port, mbit=mbit)
        return _Daemon(core, access, listeners, keys, wait, signals).run()


class _Daemon:
    def __init__(
        self,
        core: RelayCore,
        access: LearnerEndpoint,
        listeners: Sequence[socket.socket],
        keys: LearnerKeys | None,
        wait: float,
        signals: Signals,
    ) -> None:
        self._core = core
        self._access = access
        self._listeners = listeners
        self._keys = keys
        self._signals = signals
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._link = LearnerLink(self._context, access, LoadMeter())
        self._subscription = Subscription(self._context, access)
        self._ports: Ports | None = None
        """None before the learner's first welcome, which tells how long messages can be."""
        self._spec: RunSpec | None = None
        self._notifier = Notifier()
        self._telling = Telling(_log, self._notifier, access.address, wait)
        self._lines = LineLimit(REPEAT_SECONDS, LINES_PER_SECOND, LINES_AT_ONCE)
        self._watch_due = self._progress_due = -math.inf
        self._heard_all = True
        self._left = ""

    def run(self) -> int:
        here = sockets.address_of(self._listeners[0])
        _log.info("relay between the learner at %s and actors that connect to %s", self._access.address, here)
        if self._keys is None and not here.loopback:
            _log.warning("without keys: whoever reaches %s can take part in the run, and spoil it", here)
        self._notifier.ready(f"waiting for the learner at {self._access.address}")
        try:
            while not self._left and self._signals.requested is None:
                self._wait()
                self._serve()
            if self._signals.requested is not None:
                self._do(self._core.stop("the relay was stopped; it may come back"))
                return self._signals.exit_code
            _log.info("done: %s", self._left)
            self._dismiss()
            return EXIT_DONE
        except A3cdError as error:
            self._do(self._core.stop(str(error)))
            raise
        finally:
            self._notifier.stopping(self._left)
            self._close()

    def _wait(self) -> None:
        """Waits until a message arrives or something is due."""
        due = min(self._core.deadline, self._notifier.deadline) if self._heard_all else 0.0
        seconds = min(max(0.0, due - time.monotonic()), WAIT_SECONDS)
        poller = zmq.Poller()  # made anew, because sockets come and go
        for one in (self._link.socket, self._link.monitor, self._signals, *self._site_sockets()):
            poller.register(one, zmq.POLLIN)
        if self._link.monitor in dict(poller.poll(math.ceil(1e3 * seconds))):
            self._watch_due = -math.inf

    def _site_sockets(self) -> list[zmq.Socket[bytes]]:
        heard = [] if self._subscription.socket is None else [self._subscription.socket]
        return heard if self._ports is None else [*heard, *self._ports.pollable]

    def _serve(self) -> None:
        """Serves each side once."""
        now = time.monotonic()
        if now >= self._watch_due:
            self._watch_due = now + WATCH_SECONDS
            if self._link.watch(now, self._core.membership):
                self._core.connected(now)
            self._core.arrived(now, self._link.arrived())
        for message, body in self._link.receive():
            self._do(self._core.heard(time.monotonic(), message, body))
        for frame in self._subscription.frames():
            self._do(self._core.broadcast(time.monotonic(), frame.bytes))
        self._serve_site(time.monotonic())
        now = time.monotonic()
        self._do(self._core.tick(now, heard_all=self._heard_all))
        self._subscription.keep(self._core.membership)
        self._telling.look(now, self._core.membership)
        self._notifier.watchdog(now)

    # -- the site ------------------------------------------------------------------------------------------------------

    def _serve_site(self, now: float) -> None:
        """Decides who may connect, and handles the messages of the peers that have connected."""
        ports, spec = self._ports, self._spec
        if ports is None or spec is None:
            return
        if ports.authenticator is not None:
            revoked = ports.admit(now)
            self._core.allow(ports.authenticator.roles)
            if revoked:
                self._do(self._core.revoke(revoked))
        for routing_id, frames, key_name, address in ports.receive(now + DRAIN_SECONDS):
            try:
                message, body = split(frames, spec.header_bytes, by_learner=True)
            except WireError as error:
                self._do(self._core.malformed(routing_id, error))
            else:
                self._do(self._core.handle(time.monotonic(), routing_id, message, body, key_name, address))
        self._heard_all = ports.all_read
        if now >= self._progress_due:
            self._progress_due = now + PROGRESS_SECONDS
            self._core.progress(ports.progress())

    def _open(self, effect: Serve) -> None:
        """Listens to the site, with bounds on message lengths that fit this run."""
        spec, before = effect.spec, self._spec
        self._spec = spec
        self._subscription.open(effect.weights_port, ipv6=self._link.ipv6)
        environment = spec.settings.environment.id
        self._telling.doing = f"relaying {environment}, run {spec.run}"
        _log.info("%s, epoch %d", self._telling.doing, spec.epoch)
        if before is not None and _bounds(before) == _bounds(spec):
            return
        if self._ports is not None:
            self._ports.close()
        self._ports = Ports(
            self._listeners,
            self._keys,
            **_bounds(spec),
            repeat_seconds=REPEAT_SECONDS,
        )

    # ------------------------------------------------------------------------------------------------------------------

    def _do(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case ToLearner():
                    if not self._link.send(effect.message, effect.body):
                        self._core.unsent(time.monotonic(), effect)
                case Serve():
                    self._open(effect)
                case Leave():
                    self._left = effect.reason
                case Log():
                    self._write(effect)
                case ToSite() | Disconnect() | Publish() if self._ports is not None:
                    self._to_site(self._ports, effect)

    def _to_site(self, ports: Ports, effect: ToSite | Disconnect | Publish) -> None:
        match effect:
            case ToSite():
                ports.send(effect)
            case Disconnect():
                ports.disconnect(effect)
            case Publish():
                ports.publish(effect)

    def _write(self, effect: Log) -> None:
        suffix = self._lines.admit(time.monotonic(), effect.key, throttled=not effect.own)
        if suffix is not None:
            getattr(_log, effect.level)("%s%s", cut(effect.text), suffix)

    def _dismiss(self) -> None:
        """Tells the actors that the run is over, until all have said goodbye or DISMISS_SECONDS have passed."""
        until = time.monotonic() + DISMISS_SECONDS
        remind = time.monotonic() + REMIND_SECONDS
        while self._core.present and time.monotonic() < until and self._signals.requested is None:
            time.sleep(DRAIN_SECONDS)
            self._serve_site(time.monotonic())
            self._notifier.watchdog(time.monotonic())
            if time.monotonic() >= remind:
                remind = time.monotonic() + REMIND_SECONDS
                self._do(self._core.remind())

    def _close(self) -> None:
        if self._ports is not None:
            self._ports.close()
        self._subscription.close()
        self._link.close()
        self._context.term()


def _bounds(spec: RunSpec) -> dict[str, int]:
    """Returns the bounds of `Ports` that depend on the run."""
    settings = spec.settings
    return {
        "max_bytes": spec.header_bytes + longest(spec.parameters, settings.exchange.top_k),
        "unread_messages": unread_messages(settings.exchange),
        "broadcast_bytes": 4 * spec.parameters * settings.scaling.most,
    }
