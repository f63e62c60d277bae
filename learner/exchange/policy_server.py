"""Acts for environments on other hosts: one pass through the network for all groups that wait.

GA3C: Babaeizadeh et al. 2016, https://arxiv.org/abs/1611.06256. The network is the one that is trained, so the acting
policy is never older than the last step; a rollout holds the probabilities of each step's own policy, which V-trace
corrects. A group's rollout counts as its part of an actor's rollout, so that the number of groups does not change what
an actor's steps are worth.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from common.errors import CodecError, NonFiniteError
from common.rl.action_spec import ActionSpec
from common.rl.distributions.base import Floats
from common.rl.distributions.registry import distribution
from common.rl.environments.names import is_atari
from common.rl.frame_stack import FrameStack
from common.rl.observation_spec import ObservationSpec
from common.rl.rewards import reward_transform
from common.rl.rollout_buffer import RolloutBuffer
from common.settings.sections import Settings
from common.wire.bodies.observations import ObservationCodec, group_sizes, sampler, unstacked
from common.wire.frames import Buffer
from learner.exchange.device_frames import DeviceFrames, DeviceGroupBuffer
from learner.exchange.rollout_buffer import GroupBuffer
from learner.parameters.batch_trainer import BatchTrainer


class PolicyServer:
    def __init__(
        self, trainer: BatchTrainer, settings: Settings, observation: ObservationSpec, action: ActionSpec
    ) -> None:
        """`observation` and `action`: as the network sees and decides them."""
        self._trainer = trainer
        self._transport = trainer.weights.transport
        self._settings = settings
        self._model = trainer.model
        self._observation = observation
        self._action = action
        environment = settings.environment
        travels = unstacked(observation, environment.frame_stack)
        self._sizes = group_sizes(environment.num_envs, settings.exchange.groups)
        self._bodies = {count: ObservationCodec(travels, action, count) for count in set(self._sizes)}
        self.max_bytes = max(bodies.max_bytes for bodies in self._bodies.values())
        """Length of the longest body of observations."""
        # Padded as ALE does, with zeros, so that these rollouts are like those of other exchanges.
        self._stack = FrameStack(environment.frame_stack, padded=is_atari(environment.id))
        on_device = not self._transport.is_host
        self._twin = trainer.model.twin() if on_device else trainer.model
        """The network that acts. On a device it is a copy of the one that learns, which changes while this one acts."""
        self._transport.follow()
        self._frames = (
            DeviceFrames(self._transport, self._stack) if on_device and observation.kind == "pixels" else None
        )

    def open(self, seed: int, group: int, step: int) -> GroupBuffer:
        """Return the buffer for the rollouts of a new group, or one that comes back, of the actor with this seed.

        step: of the group's first message, so that one that comes back does not draw the same actions again.
        """
        model = self._model
        kept = self._observation if self._frames is None else replace(self._observation, shape=(0,), size=0)
        buffer = RolloutBuffer(
            kept,
            self._action,
            num_envs=self._sizes[group],
            capacity=self._settings.algorithm.rollout_length,
            state_size=self._model.state_size,
            rewards=reward_transform(self._settings, self._sizes[group], model.normalization, model.extras),
        )
        rng = sampler(seed, group, step)
        if self._frames is None:
            return GroupBuffer(buffer, self._stack, rng)
        return DeviceGroupBuffer(buffer, self._stack, rng, self._frames)

    def renew(self) -> None:
        """Take over the weights, which have changed; to be called only while no step is under way."""
        if self._twin is not self._model:
            self._transport.follow()
            with self._transport.acting():
                self._twin.flat.vector.copy_(self._model.flat.vector)
                self._twin.renew_statistics()

    def observe(self, group: GroupBuffer, body: Buffer, *, begins: bool, source: str = "") -> int | None:
        """Read the observations of a group of the actor `source`; a rollout that they complete goes to the trainer.

        Return the mean version that acted in that rollout; None: no rollout is complete. Raises CodecError, with
        nothing taken in, for a body that does not decode, and for rewards that are not finite.
        """
        seen = self._bodies[group.buffer.num_envs].read_seen(body, begins=begins)
        if begins:
            group.begin(seen)
            return None
        try:
            completed = group.stepped(seen)
        except NonFiniteError as error:
            raise CodecError(str(error)) from error
        if completed is None:
            return None
        if completed.moments is not None:
            self._trainer.weights.merge(completed.moments, source)
        self._trainer.add(completed.rollout, count=group.buffer.num_envs / self._settings.environment.num_envs)
        return completed.version

    def act(self, groups: Sequence[GroupBuffer], version: int) -> list[bytes]:
        """Make one pass for all groups; return the body of an `Act` for each. `version`: that of the weights."""
        states = np.concatenate([group.buffer.state for group in groups])
        step = self._step if self._twin is self._model else self._step_on_device
        outputs, after = step(groups, states)
        rows = outputs[:, :-1]
        bodies, first = [], 0
        for group in groups:
            count = group.buffer.num_envs
            own = slice(first, first + count)
            first += count
            actions, log_probs = distribution(self._model.action, rows[own]).sample(group.rng)
            group.acted(actions, log_probs, version, after[own].copy())
            bodies.append(self._bodies[count].pack_actions(actions))
        return bodies

    def _step(self, groups: Sequence[GroupBuffer], states: Floats) -> tuple[Floats, Floats]:
        return self._model.step(_joined(groups), states)

    def _step_on_device(self, groups: Sequence[GroupBuffer], states: Floats) -> tuple[Floats, Floats]:
        with self._transport.acting():
            if self._frames is None:
                before, observations = self._transport.up([states, _joined(groups)])
            else:
                (before,) = self._transport.up([states])
                rows = [group.row for group in groups if isinstance(group, DeviceGroupBuffer)]
                observations = torch.cat(self._frames.tensor(rows))
            outputs, after = self._twin.network.step(observations, before)
            fetched = self._transport.begin_down(torch.cat([outputs, after], dim=1))
        both, width = fetched(), outputs.shape[1]
        return both[:, :width], both[:, width:]


def _joined(groups: Sequence[GroupBuffer]) -> NDArray[Any]:
    """Return the observations of all groups, joined."""
    parts = [group.buffer.observations for group in groups]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
