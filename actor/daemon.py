"""The actor daemon: the shell of the actor's core, which also hears the broadcast of weights."""

import time
from collections.abc import Collection

import zmq

from actor.core import ActorCore
from actor.effects import Prepare
from actor.players.base import Player
from actor.players.build import build
from actor.shell import Shell
from common.host.security.access import LearnerEndpoint
from common.host.service.signals import Signals
from common.host.service.standstill import Standstill
from common.settings.codec_names import NAMES
from common.wire import sockets
from common.wire.client import MAX_REPLY_BYTES, introduce


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
        hello = introduce("actor", access, name, launcher=launcher, codecs=NAMES)
        return _Daemon(ActorCore(hello, time.monotonic()), access, modules, wait, signals).run()


class _Daemon(Shell):
    players = "actor.players.gradients"
    _core: ActorCore

    def __init__(
        self, core: ActorCore, access: LearnerEndpoint, modules: Collection[str], wait: float, signals: Signals
    ) -> None:
        super().__init__(core, access, modules, wait, signals)
        self._subscriber: zmq.Socket[bytes] | None = None
        self._weights_port = 0
        self._standstill = Standstill(time.monotonic())

    def _make_player(self, prepare: Prepare) -> Player:
        return build(prepare.welcome, prepare.settings, prepare.body, self._core.outbox)

    def _begin(self, prepare: Prepare) -> tuple[str, str]:
        welcome, environment = prepare.welcome, prepare.settings.environment
        if welcome.codec:  # a learner that chooses the actions broadcasts no weights
            self._subscribe(welcome.weights_port)
        way = f"codec {welcome.codec}" if welcome.codec else "actions from the learner"
        return f"playing {environment.id} x{environment.num_envs} in run {welcome.run}", way

    def _watch(self, now: float) -> None:
        super()._watch(now)
        self._core.outbox.arrived(now, self._link.arrived())

    def _listen(self) -> None:
        super()._listen()
        while self._subscriber is not None:
            try:
                # CONFLATE leaves at most the newest; a reconnect may bring an older one.
                frame = self._subscriber.recv(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                break
            self._do(self._core.broadcast(time.monotonic(), frame.buffer))

    def _tell(self, now: float) -> None:
        if stood := self._standstill.look(now):
            why = "a long step or reset, a stopped process, or a suspended host"
            self._log.warning("stood still for %.0f s: %s", stood, why)
        super()._tell(now)
        self._keep_subscription()

    def _keep_subscription(self) -> None:
        """Whoever is kept out does not knock at the second port, which would be tried many times a second."""
        membership = self._core.membership
        if membership.member and self._weights_port and self._subscriber is None:
            self._subscribe(self._weights_port)
        elif membership.obstacle and not membership.member:
            self._unsubscribe()

    def _subscribe(self, port: int) -> None:
        if self._subscriber is not None and self._weights_port == port:
            return
        self._unsubscribe()
        self._weights_port = port
        where = str(self._access.address.with_port(port))
        self._subscriber = sockets.subscriber(self._context, where, MAX_REPLY_BYTES, self._access.credential)

    def _unsubscribe(self) -> None:
        if self._subscriber is not None:
            self._subscriber.close(linger=0)
        self._subscriber = None

    def _close(self) -> None:
        self._unsubscribe()
        super()._close()
