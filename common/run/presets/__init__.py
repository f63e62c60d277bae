"""Tuned settings per environment: one TOML file each, which a learner takes as it is.

The first line of a file is a comment that says what it is for; `a3cd presets show NAME` prints the file. Its tables
`[for.ALGORITHM.SECTION]` hold what another algorithm than the file's own needs otherwise; the folder `algorithms`
holds what an algorithm wants whatever the environment.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from common.errors import ConfigurationError
from common.host.modules import bare
from common.settings.sections import Environment, Settings
from common.settings.toml import parse

ATARI = "ALE/Breakout-v5"
"""Whose settings all ALE games have that have none of their own."""


@dataclass(frozen=True)
class Preset:
    """`name` is an environment's id, with `-frames` for its pictures, in a form that is a file name."""

    name: str
    text: str

    @property
    def purpose(self) -> str:
        """The first line, without its comment mark."""
        return self.text.splitlines()[0].removeprefix("#").strip()

    def settings(self, algorithm: str | None = None) -> Settings:
        """As the learner reads them, or with what they say of another algorithm."""
        return parse(self.text, f"preset {self.name}", algorithm, _wanted())


def names() -> list[str]:
    """All presets, sorted."""
    return sorted(
        entry.name.removesuffix(".toml") for entry in files(__name__).iterdir() if entry.name.endswith(".toml")
    )


def show(name: str) -> Preset:
    """The preset `name`, as `presets` lists it, or of any ALE game. Raises ConfigurationError."""
    name = name.replace("/", "-")
    if not _exists(name):
        raise ConfigurationError(f"no preset is called {name!r}; there are {', '.join(names())}")
    if name not in names():
        return Preset(name, show(ATARI).text.replace(ATARI, name.replace("-", "/", 1)))
    return Preset(name, files(__name__).joinpath(f"{name}.toml").read_text(encoding="utf-8"))


def for_environment(environment: str, algorithm: str | None = None) -> Settings:
    """The tuned settings for `environment` (an id, or the name of a preset), or sound ones for any other.

    They are for `algorithm`, else for the preset's own.
    """
    identifier = bare(environment)
    if _exists(identifier.replace("/", "-")):
        settings = show(identifier).settings(algorithm)
        return settings if identifier == environment else _of(settings, environment)
    return _of(parse("", f"algorithm {algorithm}", algorithm, _wanted()), environment)


def _exists(name: str) -> bool:
    return name in names() or name.startswith("ALE-")


@cache
def _wanted() -> dict[str, dict[str, Any]]:
    """What algorithms want otherwise, by their names."""
    found = files(__name__).joinpath("algorithms").iterdir()
    return {one.name.removesuffix(".toml"): tomllib.loads(one.read_text(encoding="utf-8")) for one in found}


def _of(settings: Settings, environment: str) -> Settings:
    section: Environment = msgspec.structs.replace(settings.environment, id=environment)
    limits = msgspec.structs.replace(settings.limits, until_return=None)
    return msgspec.structs.replace(settings, environment=section, limits=limits)
