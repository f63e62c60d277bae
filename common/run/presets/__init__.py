"""Tuned settings per environment: one complete settings file each, with its purpose as a comment in the first line.

Tables `[for.ALGORITHM.SECTION]` have the differences for algorithms other than the file's own; the folder
`algorithms` has differences that an algorithm needs in every environment.
"""

import tomllib
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from common.errors import ConfigurationError
from common.host.modules import bare, canonical
from common.settings.sections import Environment, Settings
from common.settings.toml import parse, read, replace_at

ATARI = "ALE/Breakout-v5"
"""The preset whose settings are used for all ALE games without a preset of their own."""


@dataclass(frozen=True)
class Preset:
    """`name` is an environment's id as a file name, with `-frames` for its pictures."""

    name: str
    text: str

    @property
    def purpose(self) -> str:
        return self.text.splitlines()[0].removeprefix("#").strip()

    def settings(self, algorithm: str | None = None) -> Settings:
        """Return the settings, for the preset's own algorithm or another."""
        return parse(self.text, f"preset {self.name}", algorithm, _wanted())


def names() -> list[str]:
    return sorted(
        entry.name.removesuffix(".toml") for entry in files(__name__).iterdir() if entry.name.endswith(".toml")
    )


def show(name: str) -> Preset:
    """Return the preset `name`, which may be that of any ALE game; raises ConfigurationError."""
    name = name.replace("/", "-")
    if not _exists(name):
        near = get_close_matches(name, names(), n=1, cutoff=0.5)
        meant = f"did you mean {near[0]}? " if near else ""
        raise ConfigurationError(f"no preset is called {name!r}; {meant}there are {', '.join(names())}")
    if name not in names():
        return Preset(name, show(ATARI).text.replace(ATARI, name.replace("-", "/", 1)))
    return Preset(name, files(__name__).joinpath(f"{name}.toml").read_text(encoding="utf-8"))


def find(environment: str) -> Preset | None:
    """Return the preset for an environment's id, or of that name, if there is one."""
    identifier = bare(canonical(environment))
    return show(identifier) if _exists(identifier.replace("/", "-")) else None


def for_environment(environment: str, algorithm: str | None = None) -> Settings:
    """Return the settings for `environment` (an id, or the name of a preset): its preset's, else the defaults.

    They are for `algorithm` or, if that is None, for the preset's own algorithm.
    """
    environment = canonical(environment)
    _check_algorithm(algorithm)
    if (preset := find(environment)) is not None:
        settings = preset.settings(algorithm)
        return settings if bare(environment) == environment else _of(settings, environment)
    return _of(parse("", f"algorithm {algorithm}", algorithm, _wanted()), environment)


def from_file(file: Path, environment: str | None = None, algorithm: str | None = None) -> Settings:
    """Return the settings in `file`, which replaces the preset for `environment` (None: the file's environment).

    They are for `algorithm` or, if that is None, for the file's own algorithm. Raises ConfigurationError, also if the
    file is for another environment.
    """
    _check_algorithm(algorithm)
    settings = read(file, algorithm, _wanted())
    wanted = for_environment(environment, algorithm).environment.id if environment else ""
    if wanted and settings.environment.id != wanted:
        raise ConfigurationError(f"{file}: its settings are of {settings.environment.id}, not of {wanted}")
    return settings


def _check_algorithm(algorithm: str | None) -> None:
    """Check the algorithm by itself, so that an error does not name a preset."""
    if algorithm is not None:
        replace_at(Settings(), {"algorithm.kind": algorithm}, "--algorithm")


def _exists(name: str) -> bool:
    return name in names() or name.startswith("ALE-")


@cache
def _wanted() -> dict[str, dict[str, Any]]:
    """Return the differences that each algorithm needs in every environment."""
    found = files(__name__).joinpath("algorithms").iterdir()
    return {one.name.removesuffix(".toml"): tomllib.loads(one.read_text(encoding="utf-8")) for one in found}


def _of(settings: Settings, environment: str) -> Settings:
    section: Environment = msgspec.structs.replace(settings.environment, id=environment)
    limits = msgspec.structs.replace(settings.limits, until_return=None)
    return msgspec.structs.replace(settings, environment=section, limits=limits)
