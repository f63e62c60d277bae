"""Plays rollouts with the network on the newest weights: the common part of gradient and trajectory players."""

import numpy as np

from actor.collector import Collector
from actor.players.base import Player
from actor.refusals import other_network
from actor.rollout_summary import RolloutSummary
from actor.weight_inbox import WeightInbox
from common.errors import RefusedError
from common.rl.algorithms.registry import METHODS, exploration
from common.rl.environments.base import MakeEnvironments
from common.rl.environments.make import make as make_environments
from common.rl.environments.masks import tell_once
from common.rl.models import build
from common.rl.rewards import reward_transform
from common.rl.rollout import Rollout
from common.settings.sections import Settings
from common.wire.frames import Buffer
from common.wire.messages import Welcome


class RolloutPlayer(Player):
    """Environments, network, collector and weights of one run, and the summary of its pending rollouts."""

    def __init__(
        self, welcome: Welcome, settings: Settings, body: Buffer | None, make: MakeEnvironments | None = None
    ) -> None:
        """Raises EnvironmentMissingError if this host lacks the environment, RefusedError if its network differs."""
        section, algorithm = settings.environment, settings.algorithm
        self._environments = (make or make_environments)(section, num_envs=section.num_envs, seed=welcome.seed)
        self.action = self._environments.action
        self.observation = self._environments.observation
        self.model = build(settings, self.observation, self.action)
        if self.model.hash != welcome.model:
            self.close()
            raise RefusedError(other_network(self.model.hash, welcome, settings))
        self.weights = WeightInbox(self.model, welcome.weights_format, deltas=settings.exchange.weights == "delta")
        method = METHODS[algorithm.kind]
        per_step = method.has_target or (method.corrects and algorithm.correction == "vtrace")
        self._mixes = algorithm.refresh and per_step
        """Whether one rollout may use several versions, because the loss uses each step's own probability, or none."""
        self._acted: list[int] = []
        """Versions of the weights that played the rollout under way, one for each call of `play`."""
        self._foreign = False
        """Whether the rollout under way began in the previous epoch."""
        self._failed = False
        self._summary = RolloutSummary()
        count = self._environments.count
        rng = np.random.default_rng([welcome.seed, 1])
        self._collector = Collector(
            self._environments,
            self.model,
            self.observation,
            algorithm=algorithm,
            rewards=reward_transform(settings, count, self.model.normalization, self.model.extras),
            exploration=exploration(algorithm, self.model.action, count, rng, self.model.frames),
            rng=rng,
        )
        tell_once(self._environments)
        if body is not None:
            self.weights.offer(welcome.version, body)
            self.weights.load()

    @property
    def pending(self) -> int:
        return self._summary.count

    def play(self, until: float) -> tuple[Rollout, RolloutSummary] | None:
        """Plays until the rollout is complete, or until the time `until` (None); its data is valid until the next call.

        Newer weights are loaded before a rollout's first step, and before later steps only where the loss allows it.
        Raises the errors of `Player.advance`.
        """
        if self._failed:
            self._collector.restart()
            self._failed = False
        if self._collector.fresh:
            self.weights.load()
            self._acted.clear()
            self._foreign = False
        elif self._mixes:
            self.weights.load()
        self._acted.append(self.weights.version)
        played = self._collector.advance(until)
        if played is None:
            return None
        # V-trace clips its ratios, so it corrects only in part: the version stays that of the policy that acted, even
        # where the gradient uses newer weights.
        version = 0 if self._foreign else sum(self._acted) // len(self._acted)
        return played.data, RolloutSummary(
            version=version,
            steps=played.data.steps,
            emulator_frames=played.data.steps * self._environments.frames_per_step,
            count=1,
            episodes=played.episodes,
            moments=[] if played.moments is None else [played.moments.plain()],
        )

    @property
    def keyframe(self) -> int | None:
        return self.weights.keyframe

    def load(self, version: int, body: Buffer, *, delta: bool = False) -> bool:
        return self.weights.offer(version, body, delta=delta)

    def restart(self) -> None:
        self._failed = True

    def forget(self) -> None:
        """Starts a new epoch; the rollout under way began with weights of the previous one, and counts as version 0."""
        self.weights.forget()
        self._foreign = True
        self._summary = RolloutSummary()

    def close(self) -> None:
        self._environments.close()

    def _take_summary(self) -> RolloutSummary:
        summary, self._summary = self._summary, RolloutSummary()
        return summary
