"""Run settings as TOML: strict reading, plain writing, and single assignments from a command line.

Every error is a `ConfigurationError` of one line: where it was read, the path of the key, what stands there, and what
may stand there.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect

from common.errors import ConfigurationError
from common.settings.describe import describe
from common.settings.sections import Algorithm, Settings
from common.settings.validate import check

BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def read(path: Path) -> Settings:
    """Read the settings file at `path`; raises `ConfigurationError` also where there is none or it is no text."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: is no UTF-8 text (byte {error.start})") from error
    return parse(text, str(path))


def parse(
    text: str, source: str, algorithm: str | None = None, wanted: Mapping[str, Mapping[str, Any]] = {}
) -> Settings:
    """Read settings from TOML `text`; `source` names it in errors. Keys that are missing keep their defaults.

    Tables `[for.NAME.SECTION]` hold only with the algorithm NAME: `algorithm`, or the one in `text`. `wanted` is the
    same beneath them, for algorithms other than the one in `text`.
    """
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{source}: is no TOML: {error}") from error
    return _build(_chosen(document, source, algorithm, wanted), source)


def _chosen(
    document: dict[str, Any], source: str, algorithm: str | None, wanted: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """The document with what its tables for one algorithm say put over the rest."""
    tables = _table(document.pop("for", {}), source, "for")
    for name, sections in tables.items():
        _refuse_wrong({"algorithm": {"kind": name}}, _root(), (), f"{source}: for.{name}")
        for section, keys in _table(sections, source, f"for.{name}").items():
            _table(keys, source, f"for.{name}.{section}")
    written = document.get("algorithm", {})
    if not isinstance(written, dict):
        return document
    own = written.get("kind", Algorithm().kind)
    kind = algorithm or own
    beneath = [] if kind == own else [sections for name, sections in wanted.items() if name == kind]
    above = [sections for name, sections in tables.items() if name == kind]
    layers = [{"algorithm": {"kind": kind}}, *beneath, *above]
    for section, keys in (pair for layer in layers for pair in layer.items()):
        before = document.get(section, {})
        document[section] = {**before, **keys} if isinstance(before, dict) else before
    return document


def _table(value: object, source: str, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigurationError(f"{source}: {name} = {_toml(value)}: must be a table")
    return value


def _root() -> inspect.StructType:
    root = inspect.type_info(Settings)
    assert isinstance(root, inspect.StructType)
    return root


def dump(settings: Settings) -> str:
    """Write every setting as TOML, sections in the order of the classes; a value of None is left out."""
    top: list[str] = []
    sections: list[str] = []
    for name, value in msgspec.to_builtins(settings).items():
        if isinstance(value, dict):
            sections += ["", f"[{name}]", *(_assignment(key, one) for key, one in value.items() if one is not None)]
        else:
            top.append(_assignment(name, value))
    return "\n".join([*top, *sections]) + "\n"


def override(settings: Settings, assignments: Iterable[str], source: str = "--set") -> Settings:
    """Apply assignments such as `optimizer.learning_rate=3e-4`, `seed=3` or `environment.options.difficulty=1`.

    The value is read as TOML; what is no TOML value (a bare word) is taken as text.
    """
    document: dict[str, Any] = msgspec.to_builtins(settings)
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        *tables, key = path.strip().split(".")
        if not equals or not key:
            raise ConfigurationError(
                f"{source} {assignment}: must be section.key=value, such as optimizer.learning_rate=1e-3"
            )
        table = document
        for name in tables:
            inner = table.setdefault(name, {})
            if not isinstance(inner, dict):
                raise ConfigurationError(f"{source} {assignment}: {name} is a setting, not a section")
            table = inner
        table[key] = _value(text.strip())
    return _build(document, source)


def _build(document: Mapping[str, Any], source: str) -> Settings:
    """Turn a document into settings, checking key by key: a message then names the one key that is wrong."""
    _refuse_wrong(document, _root(), (), source)
    settings = msgspec.convert(document, Settings)
    check(settings, source)
    return settings


def _refuse_wrong(
    document: Mapping[str, Any], section: inspect.StructType, above: tuple[str, ...], source: str
) -> None:
    kinds = {field.name: field.type for field in section.fields}
    for key, value in document.items():
        path = (*above, key)
        name = ".".join(path)
        kind = kinds.get(key)
        if kind is None:
            raise ConfigurationError(f"{source}: {name} is no setting{_suggestion(key, kinds, above)}")
        if isinstance(kind, inspect.StructType) and isinstance(value, dict):
            _refuse_wrong(value, kind, path, source)
        elif not _fits(path, value):
            raise ConfigurationError(f"{source}: {name} = {_toml(value)}: must be {describe(kind)}")


def _fits(path: tuple[str, ...], value: object) -> bool:
    document = value
    for key in reversed(path):
        document = {key: document}
    try:
        msgspec.convert(document, Settings)
    except msgspec.ValidationError:
        return False
    return True


def _suggestion(key: str, kinds: Mapping[str, inspect.Type], above: tuple[str, ...]) -> str:
    """The nearest key here, else the same key in another section, else all keys there are here."""
    if near := get_close_matches(key, kinds, n=1):
        return f"; did you mean {near[0]}?"
    for section, keys in msgspec.to_builtins(Settings()).items():
        if isinstance(keys, dict) and key in keys:
            return f"; did you mean {section}.{key}?"
    return f"; {'.'.join(above) or 'the top'} has {', '.join(kinds)}"


def _value(text: str) -> object:
    try:
        document = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    # A line break in `text` could have started a second assignment.
    return document["value"] if len(document) == 1 else text


def _assignment(key: str, value: object) -> str:
    return f"{key if BARE_KEY.fullmatch(key) else _text(key)} = {_toml(value)}"


def _toml(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _text(value)
        case list():
            return f"[{', '.join(_toml(one) for one in value)}]"
        case dict():
            return f"{{ {', '.join(_assignment(key, one) for key, one in value.items())} }}" if value else "{}"
        case _:
            return str(value)


def _text(value: str) -> str:
    # JSON's escapes are TOML's, but for DEL, which JSON leaves as it is and TOML forbids.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
