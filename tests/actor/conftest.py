from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from common.rl.environments.make import make
from common.rl.environments.names import resolve
from common.rl.model import BACKGROUND
from common.rl.moments import Plain
from common.rl.networks.model import build
from common.settings.sections import Settings
from common.settings.toml import override
from learner.effects import SaveCheckpoint
from learner.record.checkpoint import CheckpointWriter
from learner.record.run_lock import create

MakeRun = Callable[..., Path]


@pytest.fixture
def trained_run(tmp_path: Path) -> MakeRun:
    """Makes a run folder whose agent always favours one action; checkpoint 1 is the best, 2 favours the next action.

    With `random` all weights are random instead.
    """

    def make_run(
        *assignments: str,
        favoured: int = 0,
        random: bool = False,
        named: str | None = None,
        moments: Plain | None = None,
    ) -> Path:
        settings = override(Settings(), assignments)
        environments = make(resolve(settings.environment), num_envs=1, seed=0)
        model = build(settings, environments.observation, environments.action)
        flat, network = model.flat, getattr(model.network, "inner", model.network)
        environments.close()
        run = create(tmp_path / "run", settings)
        writer = CheckpointWriter(run.folder, keep=2, best=True)
        for version, score in ((1, 5.0), (2, 4.0)):
            if random:
                flat.vector.normal_(std=0.3, generator=torch.Generator().manual_seed(version))
            else:
                flat.vector.zero_()
                network.head_bias.data[(favoured + version - 1) % network.action.width] = 1.0
            state = {"model": named or flat.hash, "moments": moments}
            levels = torch.linspace(1.0, 0.1, model.background.size)
            tensors = {BACKGROUND: levels} if len(levels) else {}
            writer.write(SaveCheckpoint(version, flat.vector, tensors, state, score))
        run.close()
        return run.folder.path

    return make_run
