"""The wheels to install on a host: a3cd's, given or built here, and with a wheelhouse those of all that it needs."""

import hashlib
import subprocess
import sys
from functools import cache
from pathlib import Path

from common.errors import ConfigurationError, UnavailableError

_PROJECT = Path(__file__).parents[2]


def find(wheel: Path | None, wheelhouse: Path | None, scratch: Path) -> tuple[Path, ...]:
    """The wheel given, or one built into `scratch` from the source tree of this program; then those in the wheelhouse.

    Raises ConfigurationError for files that are not there, UnavailableError where no wheel can be built.
    """
    for given in (wheel, wheelhouse):
        if given is not None and not given.exists():
            raise ConfigurationError(f"{given} does not exist")
    needed = [] if wheelhouse is None else sorted(wheelhouse.glob("*.whl"))
    if wheelhouse is not None and not needed:
        raise ConfigurationError(
            f"{wheelhouse} holds no wheel: fill it by `pip download --dest {wheelhouse} 'a3cd.whl[torch]'`"
        )
    own = wheel or _build(scratch)
    return own, *(path for path in needed if path.name != own.name)


def _build(scratch: Path) -> Path:
    if not (_PROJECT / "pyproject.toml").exists():
        raise ConfigurationError("a3cd does not run from its source tree: name the wheel to install with --wheel FILE")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(scratch), str(_PROJECT)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    built = sorted(scratch.glob("a3cd-*.whl"))
    if done.returncode or not built:
        raise UnavailableError(f"no wheel could be built (name one with --wheel FILE): {done.stderr.strip()[-1000:]}")
    return built[-1]


@cache
def digest(path: Path) -> str:
    """SHA-256 of a file, which is read once."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
