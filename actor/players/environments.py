"""Playing without a network: groups of environments whose actions come from the learner.

While one group waits for its actions the next one steps, so that waiting costs nothing.
"""

from __future__ import annotations

import time
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from actor.players.action_requests import Asking, Tally
from common.errors import A3cdError, CodecError, UnavailableError
from common.rl.environments.base import Environments
from common.rl.environments.episodes import EpisodeTracker
from common.rl.environments.make import make as make_environments
from common.rl.environments.spaces import describe
from common.settings.sections import Environment, Settings
from common.wire.bodies.observations import ObservationCodec, StepBatch, group_seed, group_sizes
from common.wire.frames import Buffer
from common.wire.messages import Act, AnyMessage, Observe, Welcome


class Remote:
    """The groups of one run, as its welcome describes them."""

    def __init__(self, welcome: Welcome, settings: Settings) -> None:
        """Raises EnvironmentMissingError where this host lacks the environment."""
        self.trouble = ""
        """What went wrong last and was survived; for the caller to take away."""
        self._name = settings.environment.id
        self._groups: list[_Group] = []
        try:
            for number, copies in enumerate(group_sizes(settings.environment.num_envs, settings.exchange.groups)):
                seed = group_seed(welcome.seed, number)
                self._groups.append(_Group(settings.environment, copies, seed))
        except A3cdError:
            self.close()
            raise
        self._asking = Asking(len(self._groups))
        self._failed: set[int] = set()

    @property
    def ready(self) -> bool:
        """Whether `advance` has anything to do."""
        return self._asking.ready is not None

    @property
    def deadline(self) -> float:
        """When `due` has something to send again."""
        return self._asking.deadline

    @property
    def well(self) -> bool:
        """Whether each group whose step failed has taken one since."""
        return not self._failed

    def handle(self, message: AnyMessage, body: Buffer | None) -> None:
        """What the learner says, once it has also been said to the actor's core."""
        match message:
            case Welcome():
                self._asking.welcomed(message)
            case Act() if message.group < len(self._groups):
                try:
                    actions = self._groups[message.group].read(body or b"")
                except CodecError as error:
                    self.trouble = f"the learner sent {error}"
                    return
                if self._asking.answered(message):
                    self._groups[message.group].actions = actions
            case _:
                pass

    def due(self, now: float) -> list[tuple[Observe, bytes]]:
        """What nobody has answered for long, to be sent again."""
        return self._asking.due(now)

    def advance(self) -> tuple[Observe, bytes]:
        """One step of the group whose turn it is, and the message that tells of it.

        Raises UnavailableError when its environments fail; it begins with new episodes then.
        """
        number = self._asking.ready
        assert number is not None
        group = self._groups[number]
        try:
            if self._asking.begins(number):
                body, tally = group.show()
            else:
                body, tally = group.step()
                self._failed.discard(number)
        except A3cdError:
            self._failed.add(number)
            self._asking.failed(number)
            raise
        return self._asking.ask(time.monotonic(), number, body, tally), body

    def close(self) -> None:
        """Closes the environments."""
        for group in self._groups:
            group.close()


class _Group:
    """Some of the copies, stepped as one."""

    def __init__(self, section: Environment, copies: int, seed: int) -> None:
        self.actions: NDArray[Any] | None = None
        """For the next step."""
        self._name = section.id
        self._environments: Environments = make_environments(unstacking(section), num_envs=copies, seed=seed)
        self._bodies = ObservationCodec(
            describe(self._environments.observation_space), self._environments.action, copies
        )
        self._seeds = np.random.default_rng([seed, 3])
        self._tracker: EpisodeTracker | None = None
        self._lost = False
        self._observations: NDArray[Any] = np.zeros(0)

    def show(self) -> tuple[bytes, Tally]:
        """The observations as they are, of new episodes if the last step failed."""
        if self._tracker is None:
            seed = int(self._seeds.integers(2**31)) if self._lost else None
            self._observations = self._environments.reset(seed)
            self._tracker = EpisodeTracker(self._environments.count, time.monotonic())
        count = self._environments.count
        nothing = np.zeros(count, np.bool_)
        seen = StepBatch(self._finite(self._observations), np.zeros(count, np.float32), nothing, nothing)
        return self._bodies.pack_seen(seen, begins=True), Tally()

    def step(self) -> tuple[bytes, Tally]:
        """One step, with the actions that came."""
        assert self._tracker is not None and self.actions is not None
        tracker, self._tracker, self._lost = self._tracker, None, True  # until it has gone well
        valid = tracker.valid
        step = self._environments.step(self.actions)
        self._observations = step.observations
        finished = tracker.update(step.rewards, step.terminated, step.truncated, time.monotonic())
        seen = StepBatch(self._finite(self._observations), self._finite(step.rewards), step.futureless, valid)
        steps = int(np.count_nonzero(valid))
        tally = Tally(
            steps,
            steps * self._environments.frames_per_step,
            list(finished),
        )
        self._tracker = tracker
        return self._bodies.pack_seen(seen, begins=False), tally

    def read(self, body: Buffer) -> NDArray[Any]:
        """Actions as they came. Raises CodecError."""
        return self._bodies.read_actions(body)

    def close(self) -> None:
        self._environments.close()

    def _finite(self, values: NDArray[Any]) -> NDArray[Any]:
        if not np.isfinite(values).all():
            raise UnavailableError(f"environment {self._name} gave what is no finite number: new episodes are begun")
        return values


def unstacking(section: Environment) -> Environment:
    """The same environment without stacked frames: those of before stay with the learner."""
    return msgspec.structs.replace(section, frame_stack=1) if section.frame_stack > 1 else section
