"""Layers in bfloat16 and compiled ones give nearly the same gradients; where neither is possible it is said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from common.errors import ConfigurationError
from common.rl.gradient import gradient
from common.rl.networks import acceleration
from common.settings.sections import Algorithm
from tests.helpers.rollouts import BOX, COPIES, PICTURE, make

SECTION = Algorithm(max_grad_norm=0.0)


def gradient_of(observation: Any, lstm: int = 0, **accelerated: bool) -> torch.Tensor:
    model, rollout = make(observation, lstm=lstm)
    if lstm:
        object.__setattr__(rollout, "state", np.ones((COPIES, 2 * lstm), np.float32))
    if accelerated:
        model.accelerate(torch.from_numpy(rollout.observations[0]), **accelerated)
    gradient(model, rollout, SECTION)
    assert model.flat.gradient.dtype == torch.float32
    return model.flat.gradient


@pytest.mark.parametrize(("observation", "lstm"), [(BOX, 0), (PICTURE, 0), (BOX, 4)])
def test_bfloat16_is_near(observation: Any, lstm: int) -> None:
    plain = gradient_of(observation, lstm)
    found = gradient_of(observation, lstm, bfloat16=True, compiled=False)
    assert not torch.equal(found, plain)
    assert float(torch.linalg.vector_norm(found - plain) / torch.linalg.vector_norm(plain)) < 0.1


def test_compiled_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceleration, "BACKEND", "eager")
    torch.testing.assert_close(gradient_of(BOX, bfloat16=False, compiled=True), gradient_of(BOX))


def test_compiled_for_any_number_of_pictures_but_of_one_size(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.compiler.reset()  # another test's shapes would make it take every length for unknown
    known: set[tuple[bool, ...]] = set()

    def noted(module: Any, inputs: list[Any]) -> Any:
        given = [node.meta.get("example_value") for node in module.graph.nodes if node.op == "placeholder"]
        (pictures,) = (one for one in given if isinstance(one, torch.Tensor) and one.dtype == torch.uint8)
        known.add(tuple(isinstance(length, int) for length in pictures.shape))
        return module.forward

    monkeypatch.setattr(acceleration, "BACKEND", noted)
    torch.testing.assert_close(gradient_of(PICTURE, bfloat16=False, compiled=True), gradient_of(PICTURE))
    assert known == {(False, True, True, True)}


def test_a_compiler_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise RuntimeError("no C++ compiler")

    monkeypatch.setattr(acceleration, "BACKEND", missing)
    with pytest.raises(ConfigurationError, match=r"optimizer.compile = true: torch.compile raised .*; use false"):
        gradient_of(BOX, bfloat16=False, compiled=True)


def test_a_device_without_bfloat16_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = make(BOX)
    probe: Any = type("Probe", (), {"device": torch.device("cuda")})
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: False)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "GTX 1080")
    with pytest.raises(ConfigurationError, match='precision = "bfloat16": GTX 1080 has none; use "float32"'):
        acceleration.features(model.network, probe, bfloat16=True, compiled=False)


NEITHER = {"architecture": "x86_64", "avx512_bf16": False, "amx_bf16": False}


@pytest.mark.parametrize(
    ("device", "capabilities", "slow"),
    [
        ("cpu", NEITHER, True),
        ("cpu", NEITHER | {"avx512_bf16": True}, False),
        ("cpu", NEITHER | {"amx_bf16": True}, False),
        ("cpu", {"architecture": "aarch64"}, False),
        ("cuda", NEITHER, False),
    ],
)
def test_a_processor_without_bfloat16_is_told(
    monkeypatch: pytest.MonkeyPatch, device: str, capabilities: dict[str, Any], slow: bool
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    assert ("float32" in acceleration.bfloat16_trouble(torch.device(device))) == slow
