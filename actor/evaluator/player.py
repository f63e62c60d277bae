"""Plays a run's evaluations: its network with the weights of one version, in environments of their own."""

import time
from collections.abc import Iterator

from actor.agent import EPISODE_STEPS
from actor.agent.agent import Agent
from actor.agent.evaluation import PlayedEpisode, playing
from actor.refusals import other_network
from common.errors import RefusedError
from common.rl.environments.base import MakeEnvironments
from common.rl.episode import Episode
from common.rl.seeds import held_out_seeds
from common.settings.sections import Settings
from common.wire.bodies.weights import WeightsFormat
from common.wire.frames import Buffer
from common.wire.messages import Welcome


class EvaluationPlayer:
    """Plays `evaluation.episodes` whole episodes per evaluation, different ones each time."""

    def __init__(self, welcome: Welcome, settings: Settings, make: MakeEnvironments | None = None) -> None:
        """Raises EnvironmentMissingError if this host lacks the environment, RefusedError if its network differs."""
        self._episodes = settings.evaluation.episodes
        self._seeds = held_out_seeds("selection", welcome.seed, welcome.epoch)
        self._agent = Agent(
            settings,
            num_envs=min(settings.environment.num_envs, self._episodes),
            seed=next(self._seeds),
            make=make,
        )
        model = self._agent.model
        if model.hash != welcome.model:
            self.close()
            raise RefusedError(other_network(model.hash, welcome, settings))
        self._format = WeightsFormat(welcome.weights_format, model.size, len(model.vectors), model.extras.size)
        self._played: list[PlayedEpisode] = []
        self._steps: Iterator[None] = iter(())

    def load(self, body: Buffer) -> None:
        """Takes the weights to evaluate. Raises CodecError for a body that does not decode."""
        model = self._agent.model
        self._format.unpack(body, model.vectors, model.extras)

    def begin(self) -> None:
        """Begins an evaluation; one under way is abandoned."""
        self._played = []
        self._steps = playing(
            self._agent, self._played, episodes=self._episodes, max_steps=EPISODE_STEPS, seeds=self._seeds
        )

    def advance(self, until: float) -> bool:
        """Plays until the evaluation is complete (True), or until the time `until`.

        Raises UnavailableError when an environment fails.
        """
        for _ in self._steps:  # noqa: SIM110  each iteration is one step of all environments
            if time.monotonic() >= until:
                return False
        return True

    @property
    def episodes(self) -> list[Episode]:
        """The evaluation's episodes that have ended so far."""
        return [Episode(episode_return, length, 0.0) for episode_return, length, _ in self._played]

    def close(self) -> None:
        self._agent.close()
