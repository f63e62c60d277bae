"""The actor daemon: the shell of the actor's core, which also receives the broadcast of weights."""

import time
from collections.abc import Collection

from actor.core import ActorCore
from actor.effects import Prepare
from actor.players.base import Player
from actor.players.build import build
from actor.shell import Shell
from actor.subscription import Subscription
from common.host.security.access import LearnerEndpoint
from common.host.service.signals import Signals
from common.host.service.standstill import Standstill
from common.settings.codec_names import NAMES
from common.wire.client import introduce


def run(
    access: LearnerEndpoint, *, name: str = "", launcher: str = "", modules: Collection[str] = (), wait: float = 0.0
) -> int:
    """Plays for the learner at `access` until the run is over or a signal comes; returns the exit code.

    If the learner is absent or refuses this actor, the actor asks again, at growing intervals.

    Args:
        name: shown in the learner's status.
        launcher: the launcher that started this actor.
        modules: the only modules that the learner's settings may name for the environment or the network.
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
        self._subscription = Subscription(self._context, access)
        self._standstill = Standstill(time.monotonic())

    def _make_player(self, prepare: Prepare) -> Player:
        return build(prepare.welcome, prepare.settings, prepare.body, self._core.outbox)

    def _begin(self, prepare: Prepare) -> tuple[str, str]:
        welcome, environment = prepare.welcome, prepare.settings.environment
        if welcome.codec:  # a learner that chooses the actions broadcasts no weights
            self._subscription.open(welcome.weights_port, ipv6=self._link.ipv6)
        way = f"codec {welcome.codec}" if welcome.codec else "actions from the learner"
        return f"playing {environment.id} x{environment.num_envs} in run {welcome.run}", way

    def _watch(self, now: float) -> None:
        super()._watch(now)
        self._core.outbox.arrived(now, self._link.arrived())

    def _listen(self) -> None:
        super()._listen()
        for frame in self._subscription.frames():
            self._do(self._core.broadcast(time.monotonic(), frame.buffer))

    def _tell(self, now: float) -> None:
        if stood := self._standstill.look(now):
            why = "a long step or reset, a stopped process, or a suspended host"
            self._log.warning("stood still for %.0f s: %s", stood, why)
        super()._tell(now)
        self._subscription.keep(self._core.membership)

    def _close(self) -> None:
        self._subscription.close()
        super()._close()
