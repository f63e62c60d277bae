"""What is in the files, read by those who know nothing of a3cd."""

from __future__ import annotations

import importlib.util
import io
import json
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open

from actor.agent.trained_agent import open_run
from actor.export import formats
from actor.export.policy import Policy, policy_of
from common.errors import ConfigurationError
from common.rl.action_masks import FORBIDDEN
from tests.helpers.guarded import ACTIONS, ID, ROOMS

MakeRun = Callable[..., Path]


@pytest.fixture
def policy(trained_run: MakeRun) -> Policy:
    """Recurrent, and of numbers."""
    path = trained_run("environment.id=Pendulum-v1", "network.lstm=4", "network.hidden=[6]", random=True)
    return policy_of(open_run(path, "best"), "mine")


def inputs(policy: Policy, batch: int) -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=one.shape).astype(np.float32) for one in policy.example(batch)]


def expected(policy: Policy, given: list[Any]) -> list[Any]:
    with torch.no_grad():
        return [one.numpy() for one in policy.module(*map(torch.from_numpy, given))]


@pytest.mark.parametrize("batch", [1, 7])
def test_safetensors(policy: Policy, batch: int, tmp_path: Path) -> None:
    data, compute = formats.safetensors(policy)
    (tmp_path / "x.safetensors").write_bytes(data)
    with safe_open(tmp_path / "x.safetensors", "np") as file:
        assert file.metadata() == policy.metadata
        found = {name: file.get_tensor(name).shape for name in file.keys()}  # noqa: SIM118
    assert found["lstm.weight_ih"] == (16, 6)
    assert found["policy.weight"] == (1, 4)
    for one, other in zip(compute(*inputs(policy, batch)), expected(policy, inputs(policy, batch)), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_torch_export(policy: Policy) -> None:
    data, compute = formats.pt2(policy)
    extra = {formats.METADATA: ""}
    torch.export.load(io.BytesIO(data), extra_files=extra)
    assert json.loads(extra[formats.METADATA]) == policy.metadata
    for batch in (1, 7):
        for one, other in zip(compute(*inputs(policy, batch)), expected(policy, inputs(policy, batch)), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_onnx(policy: Policy) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    data, compute = formats.onnx(policy)
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    assert session.get_modelmeta().custom_metadata_map == policy.metadata
    assert [(one.name, one.shape[1:]) for one in session.get_inputs()] == [("observation", [3]), ("state", [8])]
    assert [one.name for one in session.get_outputs()] == policy.outputs
    for batch in (1, 7):
        for one, other in zip(compute(*inputs(policy, batch)), expected(policy, inputs(policy, batch)), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_without_its_packages_the_extra_is_named(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.setitem(sys.modules, "onnx", sys)
    with pytest.raises(ConfigurationError, match=r"\.onnx files need onnxruntime: pip install 'a3cd\[onnx\]'"):
        formats.onnx(policy)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "onnx", "pt2"),
    [
        ("Branching", r".*own_networks\.py:\d+\); export it to \.safetensors", r".*; export it to \.safetensors"),
        ("Bessel", r".*bessel.*; export it to \.pt2 or \.safetensors", ""),
    ],
)
def test_a_network_that_a_format_cannot_hold_is_refused_with_the_cure(
    kind: str, onnx: str, pt2: str, trained_run: MakeRun, capfd: pytest.CaptureFixture[str]
) -> None:
    path = trained_run(f"network.kind=tests.helpers.own_networks:{kind}", random=True)
    policy = policy_of(open_run(path, "best"), "mine")
    assert formats.safetensors(policy)[0]
    with pytest.raises(ConfigurationError, match="torch.export cannot hold" + pt2) if pt2 else nullcontext():
        formats.pt2(policy)
    if importlib.util.find_spec("onnxscript") and importlib.util.find_spec("onnxruntime"):
        with pytest.raises(ConfigurationError, match="ONNX cannot hold this run's network" + onnx) as told:
            formats.onnx(policy)
        assert "\n" not in str(told.value)
    assert capfd.readouterr() == ("", ""), "nothing but that"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["onnx", "pt2", "safetensors"])
def test_what_is_forbidden_is_not_said(name: str, trained_run: MakeRun) -> None:
    """The mask is the end of an observation."""
    if name == "onnx":
        pytest.importorskip("onnxruntime")
        pytest.importorskip("onnxscript")
    path = trained_run(f"environment.id={ID}", "environment.action_masks=true", "network.hidden=[6]", random=True)
    policy = policy_of(open_run(path, "best"), "mine")
    assert json.loads(policy.metadata["observation"])["action_mask"] == ACTIONS
    compute = getattr(formats, name)(policy)[1]
    rooms = np.arange(30, dtype=np.float32)[:, None] % ROOMS
    masks = np.random.default_rng(0).random((30, ACTIONS)) < 0.3
    masks[:, 2] |= ~masks.any(axis=1)
    action, numbers, _ = compute(np.concatenate([rooms, masks], axis=1, dtype=np.float32))
    assert masks[np.arange(30), action - 2].all()
    np.testing.assert_array_equal(numbers == np.float32(FORBIDDEN), ~masks)
