"""Acts for environments on other hosts: one pass through the network for all groups that wait.

GA3C: Babaeizadeh et al. 2016, https://arxiv.org/abs/1611.06256. The network is the one that is trained, so the acting
policy is never older than the last step; a rollout holds the probabilities of each step's own policy, which V-trace
corrects.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from common.errors import CodecError
from common.rl.action_spec import ActionSpec
from common.rl.distributions.registry import distribution
from common.rl.environments.names import is_atari
from common.rl.networks.recurrent import Recurrent
from common.rl.observation_spec import ObservationSpec
from common.rl.rewards import NonFiniteError, reward_transform
from common.settings.sections import Settings
from common.wire.bodies.observations import ObservationCodec, group_sizes, sampler, unstacked
from common.wire.frames import Buffer
from learner.exchange.rollout_buffer import RolloutBuffer
from learner.parameters.batch_trainer import BatchTrainer


class PolicyServer:
    """Acts with the network that is trained; gives complete rollouts to the trainer."""

    def __init__(
        self, trainer: BatchTrainer, settings: Settings, observation: ObservationSpec, action: ActionSpec
    ) -> None:
        """`observation` and `action` as the network has them."""
        self._trainer = trainer
        self._settings = settings
        self._network = trainer.model.network
        self._observation = observation
        self._action = action
        environment = settings.environment
        travels = unstacked(observation, environment.frame_stack)
        self._sizes = group_sizes(environment.num_envs, settings.exchange.groups)
        self._bodies = {count: ObservationCodec(travels, action, count) for count in set(self._sizes)}
        self._padded = is_atari(environment.id)

    @property
    def max_bytes(self) -> int:
        """Length that no body of observations exceeds."""
        return max(bodies.max_bytes for bodies in self._bodies.values())

    def open(self, seed: int, group: int) -> RolloutBuffer:
        """The rollouts of a new group, of the actor with that seed."""
        environment = self._settings.environment
        return RolloutBuffer(
            self._observation,
            self._action,
            count=self._sizes[group],
            steps=self._settings.algorithm.rollout_length,
            stack=environment.frame_stack,
            padded=self._padded,
            shaping=reward_transform(self._settings, self._trainer.model, self._sizes[group]),
            state=self._network.state_size,
            rng=sampler(seed, group),
        )

    def observe(self, buffer: RolloutBuffer, body: Buffer, *, begins: bool) -> int | None:
        """Reads a group's observations; a rollout that is complete with them is given to the trainer.

        Returns the version that acted in that rollout, on average; None: no rollout is complete. Raises CodecError,
        with nothing taken in, for a body that does not decode, and for rewards that are not finite.
        """
        seen = self._bodies[buffer.count].read_seen(body, begins=begins)
        if begins:
            buffer.begin(seen)
            return None
        try:
            completed = buffer.took(seen)
        except NonFiniteError as error:
            raise CodecError(str(error)) from error
        if completed is None:
            return None
        if completed.moments is not None:
            self._trainer.weights.running.merge(completed.moments)
        self._trainer.add(completed.rollout)
        return completed.version

    def act(self, buffers: Sequence[RolloutBuffer], version: int) -> list[bytes]:
        """One pass for all of them; the body of an `act` for each. `version` is that of the weights."""
        device = self._trainer.weights.vector.device
        parts = [buffer.observations for buffer in buffers]
        observations = parts[0] if len(parts) == 1 else torch.cat(parts)
        outputs, states = self._pass(observations.to(device, non_blocking=True), buffers)
        rows = outputs.cpu().numpy()
        bodies, first = [], 0
        for buffer in buffers:
            own = rows[first : first + buffer.count]
            state = None if states is None else states[first : first + buffer.count].clone()
            first += buffer.count
            actions, log_probs = distribution(self._network.action, own).sample(buffer.rng)
            buffer.acted(actions, log_probs, version, state)
            bodies.append(self._bodies[buffer.count].pack_actions(actions))
        return bodies

    def _pass(self, observations: Tensor, buffers: Sequence[RolloutBuffer]) -> tuple[Tensor, Tensor | None]:
        """The outputs that describe the policies; of a recurrent network also the states after them, on the CPU."""
        if not isinstance(self._network, Recurrent):
            return self._network.act(observations)[0], None
        states = torch.cat([buffer.state for buffer in buffers])
        outputs, after = self._network.step(observations, states.to(observations.device))
        return outputs[:, :-1], after.cpu()
