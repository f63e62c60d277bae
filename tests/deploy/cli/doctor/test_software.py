import sys
import tomllib
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deploy.cli.doctor import software
from deploy.cli.doctor.software import environment, gpu, libzmq, look, package, python, release

PROJECT = tomllib.loads((Path(__file__).parents[4] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_versions_are_those_the_package_states() -> None:
    stated = dict(requirement.split(">=") for requirement in PROJECT["dependencies"])
    assert {name: stated[name] for name in software.NEEDED} == software.NEEDED
    assert PROJECT["optional-dependencies"]["torch"] == [f"torch>={software.TORCH}"]
    assert PROJECT["requires-python"] == ">=" + ".".join(map(str, software.PYTHON))


def test_the_lowest_click_can_load_the_commands() -> None:
    """Up to 8.4 its ParamType and CompletionItem take no type in brackets."""
    stated = dict(requirement.split(">=") for requirement in PROJECT["dependencies"])
    assert release(stated["click"]) >= (8, 5)


def test_the_extras_bring_what_is_looked_for() -> None:
    for distribution, extra, _ in software.ENVIRONMENTS:
        assert [name.split(">=")[0] for name in PROJECT["optional-dependencies"][extra]] == [distribution]


def test_here_nothing_is_bad() -> None:
    findings = look()
    assert {finding.state for finding in findings} <= {"ok", "warn"}
    assert {"python", "torch", "pyzmq", "libzmq", "gymnasium", "numpy", "gpu"} <= {finding.name for finding in findings}


def test_without_torch_it_is_said_who_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(software, "find_spec", lambda name: None)
    (only,) = [finding for finding in look() if finding.name in ("torch", "gpu")]
    assert (only.name, only.state, only.mend) == ("torch", "warn", "pip install 'a3cd[torch]'")


def test_release() -> None:
    assert release("2.13.0+cpu") == (2, 13, 0)
    assert release("26") < release("26.0.1") < release("27rc1")
    assert release("unknown") == ()


def test_a_package_that_is_missing_or_old_is_bad_and_comes_with_the_command() -> None:
    missing = package("no-such-package", "1.2")
    assert (missing.state, missing.text, missing.mend) == ("bad", "not installed", "pip install 'no-such-package>=1.2'")
    old = package("numpy", "1000.1")
    assert (old.state, old.mend) == ("bad", "pip install 'numpy>=1000.1'")
    assert "at least 1000.1 is needed" in old.text


def test_an_old_python_is_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    assert python().state == "ok"
    monkeypatch.setattr(software, "PYTHON", (4, 0))
    assert (python().state, "Python 4.0" in python().mend) == ("bad", True)


def test_an_environment_is_a_matter_of_taste() -> None:
    missing = environment("no-such-package", "extra", "the game")
    assert (missing.state, missing.mend) == ("warn", "pip install 'a3cd[extra]'")


@pytest.mark.parametrize(("module", "check"), [("zmq", libzmq), ("torch", gpu)])
def test_a_library_that_does_not_load_is_bad(monkeypatch: pytest.MonkeyPatch, module: str, check: Any) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    assert (check().state, "cannot be loaded" in check().text) == ("bad", True)


def fake_torch(usable: bool, cuda: str | None, warning: str = "") -> Any:
    def is_available() -> bool:
        if warning:
            warnings.warn(warning, stacklevel=1)
        return usable

    devices = SimpleNamespace(is_available=is_available, get_device_name=lambda index: "Some GPU")
    return SimpleNamespace(cuda=devices, version=SimpleNamespace(cuda=cuda), __version__="2.3")


@pytest.mark.parametrize(
    ("torch", "driver", "state", "text"),
    [
        (fake_torch(True, "12.4"), True, "ok", "Some GPU: a learner uses it, but not for gradients of dense networks"),
        (fake_torch(False, None), False, "ok", "none: the learner runs on the CPU"),
        (fake_torch(False, None), True, "warn", "an NVIDIA driver is here, but torch 2.3 has no CUDA"),
        (fake_torch(False, "12.4", "too old\nsee there"), True, "warn", "cannot use it: too old"),
        (fake_torch(False, "12.4"), True, "warn", "no device is visible"),
    ],
)
def test_the_gpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, torch: Any, driver: bool, state: str, text: str
) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(software, "NVIDIA_DRIVER", tmp_path if driver else tmp_path / "none")
    monkeypatch.setenv("PATH", str(tmp_path))
    finding = gpu()
    assert finding.state == state
    assert text in finding.text
    assert bool(finding.mend) == (state == "warn")
