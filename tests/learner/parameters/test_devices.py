"""Which devices are taken, without a GPU: torch is asked what a machine with some would answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from common.errors import ConfigurationError, UnavailableError
from learner.parameters import devices
from learner.parameters.devices import failure, open_devices

BUSY = "CUDA error: all CUDA-capable devices are busy or unavailable\nCUDA kernel errors might be reported later"
Machine = Callable[..., list[torch.device]]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    """One with so many GPUs, `broken` ones among them; returns those that were made torch's current one."""
    current: list[torch.device] = []

    def one(present: int, broken: str = "") -> list[torch.device]:
        def tried(device: torch.device) -> None:
            if str(device) == broken:
                raise RuntimeError(BUSY)

        def made_current(device: torch.device) -> None:
            assert device.index is not None, "torch takes no other"
            current.append(device)

        monkeypatch.setattr(torch.cuda, "is_available", lambda: present > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: present)
        monkeypatch.setattr(torch.cuda, "set_device", made_current)
        monkeypatch.setattr(devices, "_try", tried)
        monkeypatch.setattr(devices, "NVIDIA_DRIVER", tmp_path / "none")
        return current

    return one


@pytest.mark.parametrize(
    ("present", "name", "expected"),
    [(0, "cpu", "cpu"), (0, "auto", "cpu"), (2, "auto", "cuda"), (2, "cuda", "cuda"), (2, "cuda:1", "cuda:1")],
)
def test_one_device(present: int, name: str, expected: str, machine: Machine) -> None:
    machine(present)
    found = open_devices(name)
    assert (found.first, found.others, str(found), found.trouble) == (torch.device(expected), (), expected, "")


def test_several(machine: Machine) -> None:
    current = machine(3)
    found = open_devices("cuda:2,cuda:0")
    assert (str(found.first), [str(device) for device in found.others]) == ("cuda:2", ["cuda:0"])
    assert current == [found.first]
    with pytest.raises(ConfigurationError, match='"cuda:0,cuda:0" names a device twice'):
        open_devices("cuda:0,cuda:0")


@pytest.mark.parametrize(
    ("present", "name", "missing"),
    [(0, "cuda", "cuda"), (0, "cuda:0", "cuda:0"), (2, "cuda:2", "cuda:2"), (2, "cuda:0,cuda:2", "cuda:2")],
)
def test_a_device_that_is_not_there_is_refused(present: int, name: str, missing: str, machine: Machine) -> None:
    machine(present)
    with pytest.raises(ConfigurationError, match=rf'"{missing}" is not there: torch sees {present} cuda'):
        open_devices(name)


def test_one_that_cannot_be_used_is_tried_again_later_or_done_without(machine: Machine) -> None:
    machine(2, broken="cuda:1")
    with pytest.raises(UnavailableError, match=r'"cuda:1" cannot be used: .* busy or unavailable$'):
        open_devices("cuda:0,cuda:1")
    machine(1, broken="cuda")
    found = open_devices("auto")
    assert str(found) == "cpu"
    assert found.trouble.endswith("on the CPU, the GPU cannot be used: " + BUSY.splitlines()[0])


@pytest.mark.parametrize(("visible", "told"), [(None, True), ("0", True), ("", False)])
def test_a_driver_without_a_gpu_is_told_of_unless_all_are_hidden(
    visible: str | None, told: bool, machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine(0)
    monkeypatch.setattr(devices, "NVIDIA_DRIVER", tmp_path)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    found = open_devices("auto")
    assert (str(found), "torch sees no GPU" in found.trouble) == ("cpu", told)
    assert open_devices("cpu").trouble == ""


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RuntimeError(BUSY), BUSY.splitlines()[0]),
        (torch.cuda.OutOfMemoryError("CUDA out of memory."), "CUDA out of memory."),
        (RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"), "cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"),
        (RuntimeError("shapes do not fit"), ""),
        (ValueError("CUDA error"), ""),
    ],
)
def test_what_says_that_a_device_cannot_go_on(error: Exception, expected: str) -> None:
    assert failure(error) == expected


@pytest.mark.skipif(not hasattr(torch, "AcceleratorError"), reason="since torch 2.8")
def test_torch_s_own_class_of_such_errors() -> None:
    assert failure(torch.AcceleratorError("unspecified launch failure")) == "unspecified launch failure"
