"""The page about networks: its example learns, and its table has every kind."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from common.host.modules import canonical
from common.rl.action_spec import discrete
from common.rl.networks.flat import flatten
from common.rl.networks.registry import build
from common.rl.observation_spec import ObservationSpec
from common.settings.sections import NETWORKS, Network

TEXT = Path(__file__).parents[2].joinpath("docs", "networks.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "observation",
    [ObservationSpec((4,), "box", 4), ObservationSpec((2, 3), "box", 6)],
)
def test_the_example_learns(observation: ObservationSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    (name,) = re.findall(r"`(my_networks)\.py`", TEXT)
    (kind,) = re.findall(r"--network (\S+)", TEXT)
    (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    network = build(Network(kind=canonical(kind)), observation, discrete(3), seed=1)
    flat = flatten(network)
    x = torch.randn(64, *observation.shape, generator=torch.Generator().manual_seed(0))
    losses = []
    for _ in range(30):
        flat.zero()
        logits, values = network(x)
        loss = torch.nn.functional.cross_entropy(logits, torch.arange(64) % 3) + values.sub(1).square().mean()
        loss.backward()
        flat.vector.sub_(flat.gradient, alpha=0.1)
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0] - 0.1


def test_the_table_has_every_kind() -> None:
    assert set(re.findall(r"^\| (\S+) \|", TEXT, re.MULTILINE)) - {"kind", "---"} == {*NETWORKS, "module:Class"}
