from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from common.run.folder import Checkpoint
from learner.build import build
from learner.core import LearnerCore
from learner.record.run_lock import LockedRun, create, resume
from tests.helpers.built import SMALL, StartCore
from tests.helpers.run import settings_of


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartCore]:
    """Builds a new run, or the one in the folder when there is one; the first argument is the checkpoint."""
    owned: list[LockedRun] = []

    def one(*assignments: str, checkpoint: Checkpoint | None = None) -> LearnerCore:
        for run in owned:
            run.close()
        settings = settings_of(*SMALL, *assignments)
        path = tmp_path / "run"
        owned.append(resume(path, settings) if owned else create(path, settings))
        core = build(owned[-1], checkpoint, 5556, now=10.0)
        owned[-1].begin(core.run.spec.settings)
        return core

    yield one
    for run in owned:
        run.close()
    torch.backends.cudnn.allow_tf32 = True
    torch.set_flush_denormal(False)  # a learner sets it for its process; Hypothesis needs floats as they should be
