"""A player without a network: groups of environments whose actions come from the learner.

While one group waits for its actions, the next one steps, so that the actor does not idle.
"""

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from actor.outbox import Outbox
from actor.players.action_requests import ActionRequests
from actor.players.base import Player
from actor.rollout_summary import RolloutSummary
from common.errors import A3cdError, UnavailableError
from common.rl.environments.base import Environments, MakeEnvironments
from common.rl.environments.episodes import EpisodeTracker
from common.rl.environments.make import make as make_environments
from common.rl.environments.masks import tell_once
from common.settings.sections import Environment, Settings
from common.wire.bodies.observations import ObservationCodec, StepBatch, group_seed, group_sizes
from common.wire.frames import Buffer
from common.wire.messages import Act, AnyMessage, Welcome


class EnvironmentPlayer(Player):
    """The groups of environments of one run, as its welcome describes them."""

    def __init__(
        self, welcome: Welcome, settings: Settings, outbox: Outbox, make: MakeEnvironments | None = None
    ) -> None:
        """Raises EnvironmentMissingError if this host lacks the environment."""
        self._groups: list[_EnvironmentGroup] = []
        try:
            for number, num_envs in enumerate(group_sizes(settings.environment.num_envs, settings.exchange.groups)):
                seed = group_seed(welcome.seed, number)
                self._groups.append(_EnvironmentGroup(settings.environment, num_envs, seed, make or make_environments))
        except A3cdError:
            self.close()
            raise
        self._requests = ActionRequests(len(self._groups), welcome, outbox)
        self._failed: set[int] = set()

    @property
    def ready(self) -> bool:
        return self._requests.ready is not None

    def advance(self, until: float) -> bool:  # noqa: ARG002  one step never waits for `until`
        """Steps the group whose turn it is, once. If that fails, the group begins new episodes at its next turn."""
        number = self._requests.ready
        assert number is not None
        group = self._groups[number]
        try:
            if self._requests.begins(number):
                body, summary = group.show()
            else:
                body, summary = group.step()
                self._failed.discard(number)
        except A3cdError:
            self._failed.add(number)
            self._requests.failed(number)
            raise
        self._requests.ask(number, body, summary)
        return not self._failed

    def handle(self, message: AnyMessage, body: Buffer | None) -> None:
        match message:
            case Welcome():
                self._requests.welcomed(message)
            case Act() if message.group < len(self._groups):
                group = self._groups[message.group]
                actions = group.bodies.read_actions(body or b"")
                if self._requests.answered(message):
                    group.actions = actions

    def close(self) -> None:
        for group in self._groups:
            group.environments.close()


class _EnvironmentGroup:
    """Environments that are stepped together."""

    def __init__(self, section: Environment, num_envs: int, seed: int, make: MakeEnvironments) -> None:
        self.actions: NDArray[Any] | None = None
        """The actions for the next step."""
        self._name = section.id
        plain = msgspec.structs.replace(section, frame_stack=1)  # because the learner stacks frames
        self.environments: Environments = make(plain, num_envs=num_envs, seed=seed)
        self.bodies = ObservationCodec(self.environments.observation, self.environments.action, num_envs)
        self._seeds = np.random.default_rng([seed, 3])
        self._tracker: EpisodeTracker | None = None
        """None: the group must begin new episodes."""
        self._started = False
        self._observations: NDArray[Any] = np.zeros(0)

    def show(self) -> tuple[bytes, RolloutSummary]:
        """Packs the current observations, or those of new episodes if the last step failed."""
        if self._tracker is None:
            seed = int(self._seeds.integers(2**31)) if self._started else None
            self._started = True
            self._observations = self._finite(self.environments.reset(seed))
            self._tracker = EpisodeTracker(self.environments.count, self.environments.pace)
            tell_once(self.environments)
        count = self.environments.count
        nothing = np.zeros(count, np.bool_)
        batch = StepBatch(self._observations, np.zeros(count, np.float32), nothing, nothing)
        return self.bodies.pack_seen(batch, begins=True), RolloutSummary()

    def step(self) -> tuple[bytes, RolloutSummary]:
        """Takes one step with the actions received, and packs its result."""
        assert self._tracker is not None and self.actions is not None
        tracker, self._tracker = self._tracker, None  # if the step fails, new episodes must begin
        valid = tracker.valid
        begun = self.environments.clock.perf_counter()
        step = self.environments.step(self.actions)
        seconds = self.environments.clock.perf_counter() - begun
        self._observations = step.observations
        finished = tracker.update(step.rewards, step.terminated, step.truncated, seconds)
        batch = StepBatch(self._finite(self._observations), self._finite(step.rewards), step.futureless, valid)
        steps = int(np.count_nonzero(valid))
        self._tracker = tracker
        frames = steps * self.environments.frames_per_step
        summary = RolloutSummary(steps=steps, emulator_frames=frames, episodes=list(finished))
        return self.bodies.pack_seen(batch, begins=False), summary

    def _finite(self, values: NDArray[Any]) -> NDArray[Any]:
        if not np.isfinite(values).all():
            raise UnavailableError(f"environment {self._name} gave a value that is no finite number")
        return values
