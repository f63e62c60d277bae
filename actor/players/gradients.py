"""What an actor does between messages: play, compute a gradient, add it up, pack it; or pack what it played."""

from __future__ import annotations

import contextlib
import math
import time

import numpy as np
import torch

from actor.collector import Collector
from actor.rollout_summary import Harvest
from actor.timing import Timing
from actor.weight_inbox import Incoming
from common.errors import RefusedError
from common.rl.algorithms.registry import METHODS, exploration
from common.rl.algorithms.statistics import Statistics
from common.rl.environments.make import make as make_environments
from common.rl.environments.spaces import describe
from common.rl.gradient import gradient
from common.rl.model import build
from common.rl.rewards import NonFiniteError, reward_transform
from common.rl.rollout import Rollout
from common.settings.codec_names import feeds_back
from common.settings.sections import Settings
from common.wire.bodies.trajectory import TrajectoryFormat, trajectory_format, usable
from common.wire.codecs.feedback import ErrorFeedback
from common.wire.codecs.registry import make as make_codec
from common.wire.frames import Buffer
from common.wire.messages import Welcome


class Work:
    """Environments, network and gradient of one run, as its welcome describes them."""

    def __init__(self, welcome: Welcome, settings: Settings, body: Buffer | None) -> None:
        """Raises EnvironmentMissingError where this host lacks the environment, RefusedError where it differs."""
        section = settings.environment
        self._algorithm = settings.algorithm
        self._name = section.id
        self.trouble = ""
        """What went wrong last and was survived; for the caller to take away."""
        self._environments = make_environments(section, num_envs=section.num_envs, seed=welcome.seed)
        observation = describe(self._environments.observation_space)
        self._model = build(settings, observation, self._environments.action)
        self._flat = self._model.flat
        if self._flat.hash != welcome.model:
            self._environments.close()
            raise RefusedError(
                f"the network built here ({self._flat.hash}) is not the learner's ({welcome.model}): {section.id}, "
                f"the network {settings.network.kind} or a3cd differ between the two hosts; install the same versions"
            )
        exchange = settings.exchange
        self._packer = make_codec(welcome.codec, self._flat.size, exchange.top_k)
        fed_back = feeds_back(exchange.error_feedback, welcome.codec)
        self._feedback = ErrorFeedback(self._packer) if fed_back else None
        self._sum = torch.zeros_like(self._flat.gradient)
        self._trajectories: TrajectoryFormat | None = None
        self.timing: Timing | None = None
        """Of the first rollouts, if the welcome asks; for the caller to take away."""
        if exchange.kind == "trajectories" or welcome.trial:
            packing = trajectory_format(
                settings, observation, self._environments.action, self._model.network.state_size
            )
            if welcome.trial:
                self.timing = Timing(packing, welcome.trial)
            else:
                self._trajectories = packing
        self._codec = welcome.codec
        self._kept: list[Rollout] = []
        """Played and not packed yet."""
        method = METHODS[self._algorithm.kind]
        minded = method.has_target or (method.corrects and self._algorithm.correction == "vtrace")
        self._mixes = self._algorithm.refresh and minded
        self._epochs = self._algorithm.epochs if method.repeats else 1
        self._again: tuple[Rollout, int] | None = None
        """The rollout that is gone over, and how often still."""
        self._incoming = Incoming(self._model, welcome.weights_format, deltas=exchange.weights == "delta")
        self._version = 0
        self._acted: list[int] = []
        """Versions that play the rollout under way, one for each slice of time."""
        self._foreign = False
        """Whether it was begun in the epoch before."""
        rng = np.random.default_rng([welcome.seed, 1])
        action, num_envs, frames = self._model.network.action, self._environments.count, self._model.frames
        self._collector = Collector(
            self._environments,
            self._model.network,
            observation,
            algorithm=self._algorithm,
            rewards=reward_transform(settings, self._model, num_envs),
            exploration=exploration(self._algorithm, action, num_envs, rng, frames),
            rng=rng,
        )
        if body is not None:
            self.offer(welcome.version, body)
            self._load()

    def offer(self, version: int, body: Buffer, *, delta: bool = False) -> None:
        """Newer weights; they are loaded where the algorithm allows it, never in the middle of a rollout's steps."""
        self._incoming.offer(version, body, delta=delta)

    def advance(self, until: float) -> Harvest | None:
        """Plays on until a rollout is complete or the time `until` has come.

        A complete rollout's gradient is added up, or the rollout kept; what belongs to it is returned. Where an
        algorithm goes over a rollout several times, the calls after it compute its other gradients. Raises
        UnavailableError when the environment fails; NonFiniteError when it gave a reward, or the loss a gradient, that
        is no number.
        """
        if self._again is not None:
            return self._go_over(*self._again)
        if self._collector.fresh:
            self._load()
            self._acted.clear()
            self._foreign = False
        elif self._mixes:
            self._load()  # each step bears its own probability, so those of one rollout may be of many policies
        self._acted.append(self._version)
        timing = self.timing
        with contextlib.nullcontext() if timing is None else timing.play():
            rollout = self._collector.advance(until)
        if rollout is None:
            return None
        # V-trace clips what it corrects: a rollout stays as old as the policy that played it, refreshed or not.
        acted = 0 if self._foreign else sum(self._acted) // len(self._acted)
        harvest = Harvest(
            version=acted,
            steps=rollout.steps,
            emulator_frames=rollout.steps * self._environments.frames_per_step,
            count=1,
            episodes=rollout.episodes,
            moments=[] if rollout.moments is None else [rollout.moments.plain()],
        )
        if self._trajectories is not None:
            if not usable(rollout.data):
                raise NonFiniteError("an observation or a probability is not finite: rollout dropped")
            self._kept.append(rollout.data.copy())
            return harvest
        if self._epochs > 1:
            self._again = rollout.data, self._epochs - 1
        started = time.perf_counter()
        harvest.statistics = self._learn(rollout.data)._asdict()
        if timing is not None:
            timing.rollout(rollout.data, time.perf_counter() - started)
        if self._epochs > 1:  # a gradient of those weights, whoever played: the ratio says how far that is
            harvest.version = self._version
        return harvest

    def _learn(self, rollout: Rollout) -> Statistics:
        """Adds up the gradient of a rollout, on the newest weights if it may."""
        if self._algorithm.refresh:
            self._load()
        statistics = gradient(self._model, rollout, self._algorithm)
        if not math.isfinite(statistics.gradient_norm):
            self._again = None
            raise NonFiniteError("the gradient is not finite: rollout dropped")
        self._sum += self._flat.gradient
        return statistics

    def _go_over(self, rollout: Rollout, left: int) -> Harvest:
        """One more gradient of a rollout whose frames have been told; its policy is the one that learns."""
        self._again = (rollout, left - 1) if left > 1 else None
        statistics = self._learn(rollout)
        if 0 < self._algorithm.target_kl < statistics.kl:
            self._again = None
        return Harvest(version=self._version, count=1, statistics=statistics._asdict())

    def pack(self, number: int | None = None) -> bytes:
        """The packed sum of the gradients since the last `pack`, or the rollouts; starts anew.

        With a `number`, the message's, `answered` is to say what became of it.
        """
        if self._trajectories is not None:
            kept, self._kept = self._kept, []
            return self._trajectories.pack(kept, self._codec)
        feedback, started = self._feedback, time.perf_counter()
        body = self._packer.encode(self._sum) if feedback is None else feedback.encode(self._sum, number)
        if self.timing is not None:
            self.timing.packed(len(body), time.perf_counter() - started)
        self._sum.zero_()
        return body

    def answered(self, number: int, *, dropped: bool) -> None:
        """The learner has answered the gradient packed under that number; `dropped`: it is in no step."""
        if self._feedback is not None:
            self._feedback.answered(number, dropped=dropped)

    def restart(self) -> None:
        """Drops the rollout under way and begins new episodes."""
        self._again = None
        if self.timing is not None:
            self.timing.restart()
        self._collector.restart()

    def forget(self) -> None:
        """Drops all that comes from the epoch before: what has been added up, and what packing lost of it.

        A rollout under way was begun with weights that are no version of this epoch: it counts as played on version 0,
        the oldest.
        """
        self._sum.zero_()
        self._kept.clear()
        self._again = None
        self._incoming.forget()
        self._version, self._foreign = 0, True
        if self._feedback is not None:
            self._feedback.reset()

    def close(self) -> None:
        """Closes the environments."""
        self._environments.close()

    def _load(self) -> None:
        version = self._incoming.load()
        if version is not None:
            self._version = version
