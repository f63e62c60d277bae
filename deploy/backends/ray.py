"""Actors as actors of Ray, each with a process of ours beneath it; all end with the launcher."""

import socket
from collections.abc import Sequence

import msgspec

from common.host.service import notify
from deploy.backends.base import Backend, Ended, Observation, actor_name
from deploy.backends.ray_driver import Answer, Ask, Plan
from deploy.backends.runner import ToolError
from deploy.children import Child, Children, a3cd

CONNECT_SECONDS = 60.0
ANSWER_SECONDS = 30.0
_CLOSE_SECONDS = 2.0
_CURE = "`ray status` must work here, or --ray be ray://HEAD:10001; Ray and Python must have its versions"


class RayBackend(Backend):
    """Starts actors through a driver process. When the driver or Ray is gone, Ray has ended its actors; then a new
    driver is started."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._children = Children()
        self._driver: Child | None = None
        self._channel: socket.socket | None = None
        self._rest = b""
        """Bytes received beyond the last answer."""
        self._ended: dict[int, Ended] = {}

    def shown(self, slot: int) -> str:
        name = actor_name(self._plan.launcher, slot)
        return f"ray ({self._plan.address}): a3cd {' '.join([*self._plan.words, '--name', name])}"

    def start(self, slots: Sequence[int]) -> None:
        self._ask(Ask(start=tuple(slots)))

    def stop(self, slots: Sequence[int], kill: bool = False) -> None:
        self._ask(Ask(kill=tuple(slots)) if kill else Ask(stop=tuple(slots)))

    def observe(self) -> Observation:
        answer = self._ask(Ask())
        return Observation(answer.alive, answer.starting, answer.note)

    def exit_status(self, slot: int) -> Ended:
        """Says how the actor ended. If it ended with a driver, no more is known, and it counts as no failure."""
        return self._ended.pop(slot, Ended(slot, 0, "ended with the connection to Ray"))

    def close(self) -> None:
        if self._driver is not None:
            self._hang_up()
            self._driver.wait(_CLOSE_SECONDS)
        self._children.close()

    def _ask(self, ask: Ask) -> Answer:
        """Raises ToolError if there is no Ray, or no answer."""
        if self._channel is None:
            self._ended.clear()
            refused = self._connect().refused
            if refused:
                self._hang_up()
                raise ToolError(f"ray: no way to {self._plan.address}: {refused}; {_CURE}")
        answer = self._exchange(msgspec.json.encode(ask), ANSWER_SECONDS)
        self._ended |= {end.slot: end for end in answer.ended}
        return answer

    def _connect(self) -> Answer:
        if self._driver is not None:
            self._driver.kill()
            self._driver.wait(0.0)
        ours, theirs = socket.socketpair()
        with theirs:
            command = a3cd("ray-driver", str(theirs.fileno()), "--lifeline")
            environment = notify.inherited() | {"RAY_USAGE_STATS_ENABLED": "0"}
            try:
                self._driver = self._children.start(
                    command, lambda _: None, environment=environment, keep_open=[theirs.fileno()]
                )
            except OSError as error:
                ours.close()
                raise ToolError(f"ray: its driver cannot be started: {error.strerror}") from error
        self._channel, self._rest = ours, b""
        return self._exchange(msgspec.json.encode(self._plan), CONNECT_SECONDS)

    def _exchange(self, question: bytes, seconds: float) -> Answer:
        assert self._channel is not None
        assert self._driver is not None
        try:
            self._channel.settimeout(seconds)
            self._channel.sendall(question + b"\n")
            while b"\n" not in self._rest:
                part = self._channel.recv(1 << 16)
                if not part:
                    raise ConnectionError
                self._rest += part
        except OSError as error:
            self._driver.kill()
            self._hang_up()
            late = isinstance(error, TimeoutError)
            why = f"no answer within {seconds:.0f} s" if late else "the connection to the cluster is gone"
            raise ToolError(f"ray: {self._plan.address}: {why}; {_CURE}") from None
        line, _, self._rest = self._rest.partition(b"\n")
        return msgspec.json.decode(line, type=Answer)

    def _hang_up(self) -> None:
        if self._channel is not None:
            self._channel.close()
        self._channel = None
