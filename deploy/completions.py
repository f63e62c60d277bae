"""Completions of values on the command line. They are computed at each TAB: nothing here loads torch or gymnasium."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem[Any]]]


def environments(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem[Any]]:
    """Complete an environment: presets, and the classes in Python files of the working folder."""
    from common.host.modules import classes_in

    found = _presets()
    for file in sorted(Path.cwd().glob("*.py")):
        found |= {f"{file.name}:{name}": "" for name in classes_in(file)}
    return _begun(found, incomplete)


def settings(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem[Any]]:
    """Complete `section.key=`, and after the `=` the value of a setting that allows only certain words."""
    from common.settings.describe import choices, meanings
    from common.settings.sections import SECTIONS

    path, equals, _value = incomplete.partition("=")
    if equals:
        return _begun([f"{path}={one}" for one in choices(path)], incomplete)
    told = {f"{name}=": words for name, words in meanings().items() if name and name not in SECTIONS}
    return _begun(told, incomplete)


def setting(path: str) -> Complete:
    """Return the completion of one setting's value: the words that it allows."""

    def complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem[Any]]:
        from common.settings.describe import choices

        return _begun(choices(path), incomplete)

    return complete


def presets(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem[Any]]:
    return _begun(_presets(), incomplete)


def runs(incomplete: str) -> list[CompletionItem[Any]]:
    """Complete a run: `last` and the runs below the working folder, newest first; folders if no run matches."""
    from common.run.runs import LAST, RUNS

    marks = sorted(RUNS.glob("*/run.json"), key=lambda file: file.parent.name.partition("-20")[2], reverse=True)
    found = _begun([*([LAST] if marks else []), *(str(mark.parent) for mark in marks)], incomplete)
    return found or [CompletionItem(incomplete, type="dir")]


def _presets() -> dict[str, str]:
    from common.run import presets

    return {name: presets.show(name).purpose for name in presets.names()}


def _begun(words: Iterable[str] | dict[str, str], incomplete: str) -> list[CompletionItem[Any]]:
    """Return the words that begin with what was typed, with their meanings where `words` has them."""
    told = words if isinstance(words, dict) else dict.fromkeys(words, "")
    return [CompletionItem(word, help=what or None) for word, what in told.items() if word.startswith(incomplete)]
