"""Checks of what is installed: versions, environments, torch and the GPU."""

import platform
import re
import shutil
import sys
import warnings
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from deploy.cli.doctor.finding import Finding

PYTHON = (3, 11)
TORCH = "2.4"
NEEDED = {"pyzmq": "26", "gymnasium": "1.1", "numpy": "1.26", "msgspec": "0.19", "msgpack": "1.0.8"}
"""Lowest versions of torch and of the main dependencies; a test compares them with pyproject.toml."""
ENVIRONMENTS = (
    ("flappy-bird-gymnasium", "flappy", "FlappyBird-v0"),
    ("ale-py", "atari", "the Atari games"),
)
"""Distribution, the extra of a3cd that installs it, and the environments it brings."""
NVIDIA_DRIVER = Path("/proc/driver/nvidia/version")


def look() -> list[Finding]:
    """All findings; imports torch, which takes a second or two."""
    installed = [package(name, minimum) for name, minimum in NEEDED.items()]
    return [python(), *installed, libzmq(), *torch_and_gpu(), *(environment(*known) for known in ENVIRONMENTS)]


def python() -> Finding:
    text = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info < PYTHON:
        mend = f"a3cd needs Python {PYTHON[0]}.{PYTHON[1]}: make a virtual environment with it"
        return Finding("python", "bad", text, mend)
    return Finding("python", "ok", text)


def package(name: str, minimum: str) -> Finding:
    mend = f"pip install '{name}>={minimum}'"
    try:
        found = version(name)
    except PackageNotFoundError:
        return Finding(name, "bad", "not installed", mend)
    if release(found) < release(minimum):
        return Finding(name, "bad", f"{found}, at least {minimum} is needed", mend)
    return Finding(name, "ok", found)


def release(text: str) -> tuple[int, ...]:
    """The leading numbers of a version: 2.13.0+cpu is (2, 13, 0)."""
    match = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def libzmq() -> Finding:
    try:
        import zmq
    except ImportError as error:
        return Finding("libzmq", "bad", f"pyzmq cannot be loaded: {error}", "pip install --force-reinstall pyzmq")
    return Finding("libzmq", "ok", zmq.zmq_version())


def torch_and_gpu() -> list[Finding]:
    """Torch and the GPU. Without torch only actors of dense networks can play, and the GPU cannot be checked."""
    if find_spec("torch") is not None:
        return [package("torch", TORCH), gpu()]
    text = "not installed: no learner here, and no actors but those of dense networks"
    return [Finding("torch", "warn", text, "pip install 'a3cd[torch]'")]


def gpu() -> Finding:
    try:
        import torch
    except (ImportError, OSError) as error:
        return Finding("gpu", "bad", f"torch cannot be loaded: {error}", "pip install --force-reinstall torch")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        usable = torch.cuda.is_available()
    if usable:
        return Finding(
            "gpu", "ok", f"{torch.cuda.get_device_name(0)}: a learner uses it, but not for gradients of dense networks"
        )
    if not (NVIDIA_DRIVER.exists() or shutil.which("nvidia-smi")):
        return Finding("gpu", "ok", "none: the learner runs on the CPU")
    if torch.version.cuda is None:
        text = f"an NVIDIA driver is here, but torch {torch.__version__} has no CUDA"
        return Finding("gpu", "warn", text, "install a torch with CUDA, see pytorch.org/get-started")
    reason = str(said[0].message).splitlines()[0] if said else "no device is visible (CUDA_VISIBLE_DEVICES?)"
    text = f"torch is built for CUDA {torch.version.cuda} and cannot use it: {reason}"
    return Finding("gpu", "warn", text, "see what nvidia-smi says; a driver may be too old for this torch")


def environment(distribution: str, extra: str, brings: str) -> Finding:
    try:
        return Finding(distribution, "ok", f"{version(distribution)}: {brings}")
    except PackageNotFoundError:
        text = f"not installed: {brings} cannot be played"
        return Finding(distribution, "warn", text, f"pip install 'a3cd[{extra}]'")
