from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args

import pytest
import zmq
from msgspec import inspect

from common.wire import sockets
from common.wire.bodies import broadcast
from common.wire.messages import PROTOCOL, RefusalCode, Verdict

DOCS = Path(__file__).parents[2] / "docs"
MAX_BYTES, IDENTITY = 4711, b"actor"
DOCUMENT = (DOCS / "protocol.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def make_protocol() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_protocol", DOCS / "make_protocol.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows(heading: str) -> dict[str, list[str]]:
    """The table whose first column is headed so: first cells to the others."""
    lines = DOCUMENT[DOCUMENT.index(f"\n| {heading} |") + 1 :].split("\n\n")[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    return {row[0].strip("`"): row[1:] for row in cells}


def test_the_document_is_what_the_code_says(make_protocol: ModuleType) -> None:
    assert make_protocol.generate(DOCUMENT) == DOCUMENT, "run python docs/make_protocol.py"


def test_a_document_without_its_markers(make_protocol: ModuleType) -> None:
    with pytest.raises(ValueError, match="has no <!-- messages"):
        make_protocol.generate("# The protocol")


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (int, "int"),
        (bool, "bool"),
        (Any, "any"),
        (Literal["b", "a"], "`a` / `b`"),
        (list[tuple[float, int]], "list of (float, int)"),
    ],
)
def test_words(make_protocol: ModuleType, kind: object, words: str) -> None:
    assert make_protocol.words(inspect.type_info(kind)) == words


def test_a_type_without_words(make_protocol: ModuleType) -> None:
    with pytest.raises(TypeError, match="no words for"):
        make_protocol.words(inspect.type_info(bytes))


def test_the_protocols_number() -> None:
    assert f"The protocol's number is {PROTOCOL} (" in DOCUMENT


def test_every_verdict_and_refusal_is_explained() -> None:
    assert set(rows("verdict")) == set(get_args(Verdict))
    assert set(rows("refusal code")) == set(get_args(RefusalCode))


def test_the_broadcasts_layout() -> None:
    layout = {cells[0]: int(offset) for offset, cells in rows("offset").items() if cells[0]}
    described = re.findall(r"^(?:offset)? +(\d+)  (\w+) ", broadcast.__doc__ or "", re.MULTILINE)
    assert {name: int(offset) for offset, name in described} | {"body": 32} == layout | {"zero": 25}


class Recorder:
    """A context and a socket that note which options are set."""

    def __init__(self) -> None:
        self.options: dict[str, object] = {}

    def socket(self, kind: int) -> Recorder:
        return self

    def setsockopt(self, option: int, value: object) -> None:
        self.options[zmq.SocketOption(option).name] = value

    def connect(self, address: str) -> None:
        pass


@pytest.mark.parametrize("column", range(4), ids=["ROUTER", "PUB", "DEALER", "SUB"])
def test_the_socket_options(column: int) -> None:
    context: Any = Recorder()
    (
        lambda: sockets.router(context, MAX_BYTES),
        lambda: sockets.publisher(context),
        lambda: sockets.dealer(context, "tcp://lab7:5555", IDENTITY, MAX_BYTES),
        lambda: sockets.subscriber(context, "tcp://lab7:5556", MAX_BYTES),
    )[column]()
    documented = {name: _value(cells[column]) for name, cells in rows("option").items() if cells[column]}
    assert context.options == documented
    assert all(cells[-1] for cells in rows("option").values()), "each says why"


def _value(cell: str) -> object:
    named = {"max_bytes": MAX_BYTES, "identity": IDENTITY, "empty": b""}
    return named[cell] if cell in named else int(cell)
