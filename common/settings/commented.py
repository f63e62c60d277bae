"""Settings as a TOML file for a person to change: every setting with its meaning and its allowed values."""

import json
import re
import textwrap
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import inspect

from common.settings.describe import describe, meanings
from common.settings.sections import SECTIONS, Section, Settings
from common.settings.toml import by_path, parse

WIDTH = 100
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def commented(settings: Settings, preset: str = "") -> str:
    """Return every setting as TOML: those that differ from the defaults with their values, the others commented out.

    preset: the text that the values come from, if any. Its comments stay beside the values; its tables for other
    algorithms go to the end, if `settings` are for its own algorithm. `common.settings.toml.parse` gives the same
    settings back.
    """
    original, own = parse(preset, "preset"), by_path(settings)
    base, others = _split(preset)
    reasons = {path: why for path, why in _reasons(base).items() if own[path] == by_path(original)[path]}
    if settings.algorithm.kind != original.algorithm.kind:
        others = ""
    told = meanings()
    parts = ["\n".join(_section("", Settings, settings, told, reasons))]
    for name, kind in SECTIONS.items():
        parts.append(f"[{name}]\n# {told[name]}\n")
        parts.append("\n".join(_section(name, kind, getattr(settings, name), told, reasons)))
    return "\n".join([*parts, *([f"# For other algorithms than algorithm.kind above.\n{others}"] if others else [])])


def _section(
    name: str, kind: type[Section], section: Section, told: dict[str, str], reasons: dict[str, str]
) -> Iterator[str]:
    usual: dict[str, Any] = msgspec.to_builtins(kind())
    values: dict[str, Any] = msgspec.to_builtins(section)
    for field in msgspec.structs.fields(kind):
        path = f"{name}.{field.name}".removeprefix(".")
        if path in SECTIONS:
            continue
        words = describe(inspect.type_info(field.type))
        yield from _comment(f"{told[path]} [{words}]")
        value = values[field.name]
        if value is None:
            yield f"# {field.name} is not set."
        elif value == usual[field.name] and path != "environment.id":
            yield f"#{field.name} = {toml(value)}"
        else:
            why = f"  # {reasons[path]}" if path in reasons else ""
            yield f"{field.name} = {toml(value)}{why}"
        yield ""


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)


def toml(value: Any) -> str:
    """Return a value as TOML on one line."""
    match value:
        case dict():
            pairs = [f"{key if _BARE.fullmatch(key) else json.dumps(key)} = {toml(its)}" for key, its in value.items()]
            return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
        case list():
            return f"[{', '.join(map(toml, value))}]"
        case float():
            return repr(value)
        case int() if not isinstance(value, bool) and abs(value) >= 10_000:
            return f"{value:_}"
        case _:
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _reasons(preset: str) -> dict[str, str]:
    """Return the comments behind a preset's own values, by the paths of the values."""
    found, section = {}, ""
    for line in preset.splitlines():
        if header := re.match(r"\[([\w.-]+)\]", line):
            section = header[1]
        elif pair := re.match(r"(\w+) = [^#]*# *(.+)", line):
            found[f"{section}.{pair[1]}".removeprefix(".")] = pair[2]
    return found


def _split(preset: str) -> tuple[str, str]:
    """Split a preset into what is for its own algorithm, and its tables for others."""
    begin = re.search(r"^(#.*\n)*\[for\.", preset, re.MULTILINE)
    return (preset[: begin.start()], preset[begin.start() :]) if begin else (preset, "")
