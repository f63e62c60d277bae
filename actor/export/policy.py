"""A run's policy as a self-contained PyTorch module, with the metadata that a user without a3cd needs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from actor.agent.trained_agent import TrainedRun, load_weights
from common.host.versions import own_version
from common.rl.environments.interface import Interface, interface
from common.rl.environments.names import draws_actions
from common.rl.networks.model import build
from common.rl.networks.plain import PlainNetwork
from common.rl.networks.plain_policy import PlainPolicy


@dataclass(frozen=True, eq=False)
class Policy:
    module: PlainPolicy
    interface: Interface
    state_size: int
    """Numbers in the recurrent state of one environment; 0: the policy needs no state."""
    metadata: dict[str, str]

    @property
    def inputs(self) -> list[str]:
        return ["observation", *(["state"] if self.state_size else [])]

    @property
    def outputs(self) -> list[str]:
        return ["action", "policy", "value", *(["next_state"] if self.state_size else [])]

    def example(self, batch: int) -> tuple[Tensor, ...]:
        """Return example inputs for a batch of `batch` observations, all zeros."""
        spec = self.interface.observation
        types = {"box": torch.float32, "pixels": torch.uint8, "discrete": torch.int64}
        observation = torch.zeros((batch, *spec.shape), dtype=types[spec.kind])
        return observation, *([torch.zeros(batch, self.state_size)] if self.state_size else [])


def policy_of(run: TrainedRun, name: str) -> Policy:
    """Return the policy of a run whose folder is called `name`; raises the errors of `TrainedAgent`."""
    settings = run.settings
    own = interface(settings.environment)
    model = build(settings, own.observation, own.actions.spec)
    load_weights(run, model)
    network = PlainNetwork(model, own.observation)
    module = PlainPolicy(network, own.actions).eval().requires_grad_(False)
    return Policy(module, own, network.state_size, _metadata(run, name, own, network))


def _metadata(run: TrainedRun, name: str, own: Interface, network: PlainNetwork) -> dict[str, str]:
    """Return the metadata as texts, which all three formats can hold."""
    settings, frame, spec = run.settings, own.observation, own.actions.spec
    observation: dict[str, Any] = {"kind": frame.kind, "shape": frame.shape, "space": str(own.space)}
    observation["frame_stack"] = 1 if own.stack is None else own.stack.depth
    action: dict[str, Any] = {"kind": spec.kind, "shape": spec.shape, "space": str(own.actions.space)}
    if frame.seen is not None:
        bare = {"kind": frame.seen.kind, "shape": frame.seen.shape}
        observation |= {"masked": bare, "action_mask": spec.width}
    action |= {"squashed": spec.squashed, "log_std": spec.log_std} if spec.kind == "box" else {"sizes": spec.sizes}
    return {
        "format": "pt",
        "a3cd": own_version(),
        "run": name,
        "environment": settings.environment.id,
        "algorithm": settings.algorithm.kind,
        "version": str(run.checkpoint.version),
        "network": repr(network),
        "observation": json.dumps(observation),
        "action": json.dumps(action),
        "state_size": str(network.state_size),
        "drawn_in_training": json.dumps(draws_actions(settings)),
    }
