"""Which settings may name the user's code: as `module:Name` or, where a person writes them, as `file.py:Name`."""

from collections.abc import Mapping
from typing import Any

from common.errors import ConfigurationError
from common.host import modules
from common.settings.sections import Settings

PLACES = (("environment", "id"), ("environment", "wrappers"), ("network", "kind"))
"""Sections and keys; the value is a text, or a list of texts."""


def own_code(settings: Settings) -> list[str]:
    """Return every `module:Name` in the settings: a process that plays or learns by them imports that module."""
    found: list[str] = []
    for section, key in PLACES:
        value = getattr(getattr(settings, section), key)
        found += value if isinstance(value, list) else [value]
    return [named for named in found if modules.module_of(named)]


def canonical(document: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return a document of settings with `module:Name` in place of each `file.py:Name`; raises ConfigurationError."""

    def read(value: object) -> object:
        if isinstance(value, list):
            return [read(one) for one in value]
        return modules.canonical(value) if isinstance(value, str) else value

    found = dict(document)
    for section, key in PLACES:
        table = found.get(section)
        if isinstance(table, dict) and key in table:
            try:
                found[section] = {**table, key: read(table[key])}
            except ConfigurationError as error:
                raise ConfigurationError(f"{source}: {section}.{key}: {error}") from error
    return found
