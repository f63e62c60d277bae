"""Groups of runs that differ only in their seed; groups are named by the settings in which they differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from common.settings.sections import Settings
from common.settings.toml import by_path
from deploy.runs.table import FoundRun

_FIGURES = 5
"""Significant digits of a number in a name."""


@dataclass(frozen=True)
class Group:
    env: str
    name: str
    """The algorithm, and what tells the group from others of the same environment and algorithm."""
    runs: list[FoundRun]
    """One or more, by seed."""


def groups(runs: Iterable[FoundRun]) -> list[Group]:
    """The groups of these runs, in the order of the runs."""
    alike: dict[bytes, list[FoundRun]] = defaultdict(list)
    for run in runs:
        alike[msgspec.json.encode(msgspec.structs.replace(run.settings, seed=0))].append(run)
    kinds: dict[tuple[str, str], list[list[FoundRun]]] = defaultdict(list)
    for members in alike.values():
        kinds[members[0].row.env, members[0].row.algorithm].append(members)
    found = []
    for (env, algorithm), several in kinds.items():
        names = _names([members[0].settings for members in several])
        found += [
            Group(env, ", ".join([algorithm, *name]), members) for name, members in zip(names, several, strict=True)
        ]
    return found


def _names(settings: Sequence[Settings]) -> list[tuple[str, ...]]:
    """The settings in which the groups differ, as PATH=VALUE; limits only where nothing else tells the groups apart."""
    tables = [by_path(one) for one in settings]
    paths = differing(settings)
    task = [path for path in paths if not path.startswith("limits.")]
    names = [tuple(f"{path}={_text(table[path])}" for path in task) for table in tables]
    if len(set(names)) == len(names):
        return names
    return [tuple(f"{path}={_text(table[path])}" for path in paths) for table in tables]


def differing(settings: Sequence[Settings]) -> list[str]:
    """The paths at which some settings differ, except the seed."""
    tables = [by_path(one) for one in settings]
    first = tables[0] if tables else {}
    return [path for path in first if path != "seed" and any(table[path] != first[path] for table in tables)]


def _text(value: Any) -> str:
    return f"{value:.{_FIGURES}g}" if isinstance(value, float) else str(value)
