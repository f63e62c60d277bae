"""The map of the code names files that are there, and no way through it grows long."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PATHS = re.compile(r"`((?:common|actor|learner|relay|deploy)/[\w./]*)`")


def files_of(title: str) -> list[str]:
    _, _, rest = TEXT.partition(f"### {title}")
    return PATHS.findall(rest.partition("\n#")[0])


def test_every_file_it_names_is_there() -> None:
    assert [path for path in PATHS.findall(TEXT) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize(
    ("way", "most"), [("A gradient:", 30), ("Weights:", 12), ("An actor:", 15), ("`a3cd train`:", 25)]
)
def test_a_way_is_short(way: str, most: int) -> None:
    files = files_of(way)
    assert len(files) > 5
    assert len(set(files)) <= most
