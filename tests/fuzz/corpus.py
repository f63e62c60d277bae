"""The inputs that are kept: one file a target, one input a line, in hexadecimal digits."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from common.run import presets

FOLDER = Path(__file__).parent / "corpus"
MOST_INPUTS = 80
MOST_BYTES = 400
"""Of one input."""


GOLDEN = Path(__file__).parents[1] / "common" / "wire" / "golden.json"


def seeds(target: str) -> list[bytes]:
    """The kept inputs, and good ones to begin with: one of each message, the presets."""
    if target.startswith("header"):
        messages = json.loads(GOLDEN.read_text())["messages"].values()
        return [*read(target), *(bytes.fromhex(message["hex"]) for message in messages)]
    if target == "settings_file":
        return [*read(target), *(presets.show(name).text.encode() for name in presets.names())]
    return read(target)


def read(target: str) -> list[bytes]:
    file = FOLDER / f"{target}.txt"
    return [bytes.fromhex(line) for line in file.read_text().splitlines()] if file.exists() else []


def write(target: str, inputs: Iterable[bytes]) -> None:
    """The shortest of them, and every one that is there already: a crash of the past stays."""
    before = read(target)
    short = sorted({one for one in inputs if len(one) <= MOST_BYTES} - set(before), key=lambda one: (len(one), one))
    kept = sorted([*before, *short[: max(0, MOST_INPUTS - len(before))]], key=lambda one: (len(one), one))
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{target}.txt").write_text("".join(f"{one.hex()}\n" for one in kept))
