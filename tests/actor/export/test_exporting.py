from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import a3cd
from actor.export import comparison
from common.errors import ConfigurationError, TorchMissingError, UnavailableError

MakeRun = Callable[..., Path]


def test_a_file_is_written_once_it_is_compared(
    trained_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, out = trained_run(random=True), tmp_path / "x.safetensors"
    exported = a3cd.export(path, out)
    assert (exported.file, exported.size) == (str(out), out.stat().st_size)
    assert (exported.env, exported.version, exported.ties) == ("CartPole-v1", 1, 0)
    assert exported.observations >= 1000
    assert a3cd.export(str(path), str(out), checkpoint="newest").version == 2
    before = out.read_bytes()
    monkeypatch.setattr(comparison, "TOLERANCE", -1.0)
    with pytest.raises(ConfigurationError, match="differs"):
        a3cd.export(path, out)
    assert out.read_bytes() == before


def test_bad_input(trained_run: MakeRun, tmp_path: Path) -> None:
    path = trained_run()
    with pytest.raises(ConfigurationError, match=r"a policy is exported to a \.onnx, \.pt2, \.safetensors file"):
        a3cd.export(path, tmp_path / "x.bin")
    with pytest.raises(ConfigurationError, match="there is no folder"):
        a3cd.export(path, tmp_path / "y" / "x.onnx")
    with pytest.raises(ConfigurationError, match="there is no such folder"):
        a3cd.export(tmp_path / "nothing", tmp_path / "x.onnx")
    (tmp_path / "x.safetensors").mkdir()
    with pytest.raises(UnavailableError, match=r"x\.safetensors: cannot be written"):
        a3cd.export(path, tmp_path / "x.safetensors")


def test_without_torch(trained_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = trained_run()
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(TorchMissingError, match=r"an export needs torch, .* 'a3cd\[torch\]'"):
        a3cd.export(path, tmp_path / "x.safetensors")
