"""Random rollouts for the tests of gradients."""

from __future__ import annotations

from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from common.rl.action_spec import ActionSpec, discrete
from common.rl.networks.model import TorchModel, build
from common.rl.observation_spec import ObservationSpec
from common.rl.rollout import Rollout
from common.settings.sections import Algorithm, Network, Settings

STEPS, COPIES, ACTIONS = 6, 7, 3
BOX = ObservationSpec((4,), "box", 4)
PICTURE = ObservationSpec((2, 36, 36), "pixels", 2 * 36 * 36)


def make(
    observation: ObservationSpec,
    seed: int = 0,
    kind: str = "auto",
    action: ActionSpec | None = None,
    lstm: int = 0,
    algorithm: str = "a3c",
    normalize: bool = False,
) -> tuple[TorchModel, Rollout]:
    """Returns a model and a rollout for it, whose probability ratios are well below and above 1."""
    generator = torch.Generator().manual_seed(seed)
    action = action or discrete(ACTIONS)
    network = Network(kind=kind, log_std=action.log_std, lstm=lstm, normalize=normalize)
    chosen = Algorithm(kind=algorithm)  # type: ignore[arg-type]
    model = build(Settings(network=network, algorithm=chosen, seed=seed), observation, action)
    flat = model.flat
    if observation is BOX:
        flat.vector.add_(torch.randn(flat.size, generator=generator), alpha=0.1)
    shape = (STEPS, COPIES)
    x = torch.randint(0, 256, (STEPS + 1, COPIES, *observation.shape), generator=generator)
    rollout = Rollout(
        observations=(x.to(torch.uint8) if observation is PICTURE else x / 128 - 1).numpy(),
        actions=_actions(action, generator).numpy(),
        rewards=torch.randn(shape, generator=generator).numpy(),
        terminated=(torch.rand(shape, generator=generator) < 0.2).numpy(),
        valid=(torch.rand(shape, generator=generator) < 0.8).numpy(),
        behaviour_log_probs=(-3 * torch.rand(shape, generator=generator)).numpy(),
    )
    return model, rollout


def tensors(rollout: Rollout) -> Any:
    """Returns the same fields as torch tensors, for computations with torch's own functions."""
    parts = {field.name: getattr(rollout, field.name) for field in fields(rollout)}
    return SimpleNamespace(**{name: None if part is None else torch.from_numpy(part) for name, part in parts.items()})


def _actions(action: ActionSpec, generator: torch.Generator) -> Tensor:
    if action.kind == "box":
        return torch.randn((STEPS, COPIES, *action.shape), generator=generator)
    columns = [torch.randint(0, size, (STEPS, COPIES), generator=generator) for size in action.sizes]
    return torch.stack(columns, dim=-1).reshape(STEPS, COPIES, *action.shape)
