"""docs/library.md: its examples do what they say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import a3cd
from common.rl.environments.make import make
from common.rl.networks.model import build
from learner.effects import SaveCheckpoint
from learner.record.checkpoint import CheckpointWriter
from learner.record.run_lock import create
from tests.helpers.run import settings_of

TEXT = (Path(__file__).parents[2] / "docs" / "library.md").read_text(encoding="utf-8")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """runs/mine, of CartPole-v1 with one hidden layer, never trained."""
    monkeypatch.chdir(tmp_path)
    settings = settings_of("network.hidden=[16]", "network.activation=relu")
    environments = make(settings.environment, num_envs=1, seed=0)
    model = build(settings, environments.observation, environments.action)
    environments.close()
    model.flat.vector.normal_(generator=torch.Generator().manual_seed(0))
    made = create(Path("runs/mine"), settings)
    save = SaveCheckpoint(1, model.flat.vector, {}, {"model": model.hash}, 1.0)
    CheckpointWriter(made.folder, keep=1, best=True).write(save)
    made.close()
    return tmp_path / "runs" / "mine"


def indented(after: str) -> str:
    """The first indented block behind a heading or sentence."""
    found = re.search(r"\n((?:    .*\n|\n)+)", TEXT.partition(after)[2])
    assert found is not None
    return "\n".join(line.removeprefix("    ") for line in found[1].splitlines())


def test_an_agent_in_three_lines(run: Path) -> None:
    names: dict[str, Any] = {"observation": np.zeros(4)}
    exec(indented("## An agent in Python"), names)
    assert names["action"] in (0, 1)
    exec(indented("its episodes are those that no run trains on."), names)
    assert names["over"]
    names["environment"].close()


def test_an_exported_policy_without_a3cd(run: Path) -> None:
    a3cd.export(run, "policy.safetensors")
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    observations = torch.randn(50, 4, generator=torch.Generator().manual_seed(1))
    names: dict[str, Any] = {"observations": observations}
    exec(code, names)
    assert names["actions"].tolist() == a3cd.load("last", sampled=False).act(observations.numpy()).tolist()
    assert set(names["actions"].tolist()) == {0, 1}


def test_every_public_name_is_on_the_page() -> None:
    told = {name for name in a3cd.__all__ if re.search(rf"\b{name}\b", TEXT)}
    assert set(a3cd.__all__) - told == {"main", "Agent", "Evaluation", "Exported"}
