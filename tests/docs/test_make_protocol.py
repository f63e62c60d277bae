from __future__ import annotations

import importlib.util
import zlib
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args

import pytest
import zmq
from msgspec import inspect

from common.errors import ConfigurationError
from common.host.addresses import Address
from common.host.security import access
from common.rl.episode import Episode
from common.wire import sockets
from common.wire.bodies.broadcast import Broadcast
from common.wire.messages import Verdict

DOCS = Path(__file__).parents[2] / "docs"
MAX_BYTES = 4711
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
    with pytest.raises(ValueError, match="has no <!-- number"):
        make_protocol.generate("# The protocol")


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (int, "int"),
        (bool, "bool"),
        (Any, "any"),
        (Literal["b", "a"], "`a` / `b`"),
        (list[tuple[float, int]], "list of (float, int)"),
        (Episode, "float, int, float"),
    ],
)
def test_words(make_protocol: ModuleType, kind: object, words: str) -> None:
    assert make_protocol.words(inspect.type_info(kind)) == words


def test_a_type_without_words(make_protocol: ModuleType) -> None:
    with pytest.raises(TypeError, match="no words for"):
        make_protocol.words(inspect.type_info(bytes))


def test_every_verdict_is_explained() -> None:
    assert set(rows("verdict")) == set(get_args(Verdict))


def test_the_documented_header_of_a_broadcast_is_the_one_that_is_packed() -> None:
    layout = {cells[0]: int(offset) for offset, cells in rows("offset").items() if cells[0]}
    frame = Broadcast(run=b"rrrrrrrr", epoch=1, version=2, format="delta", body=b"body").pack()
    content = {"magic": b"A3W\1", "run": b"rrrrrrrr", "epoch": b"\1\0\0\0", "version": b"\2", "format": b"\2"}
    content |= {"checksum": zlib.crc32(b"body").to_bytes(4, "little"), "body": b"body"}
    assert {name: frame[offset:].startswith(content[name]) for name, offset in layout.items()} == dict.fromkeys(
        content, True
    )


def test_without_keys_only_loopback_is_reached_unless_insecure(tmp_path: Path) -> None:
    """As the section on security says."""
    far = Address("lab7", 5555)
    with pytest.raises(ConfigurationError, match="--insecure"):
        access.find(far, folder=tmp_path)
    assert access.find(far, insecure=True).credential is None
    assert access.find(Address("127.0.0.1", 5555), folder=tmp_path).credential is None


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
        lambda: sockets.dealer(context, "tcp://lab7:5555", MAX_BYTES),
        lambda: sockets.subscriber(context, "tcp://lab7:5556", MAX_BYTES),
    )[column]()
    documented = {name: _value(cells[column]) for name, cells in rows("option").items() if cells[column]}
    assert context.options == documented
    assert all(cells[-1] for cells in rows("option").values()), "each says why"


def _value(cell: str) -> object:
    named = {"max_bytes": MAX_BYTES, "empty": b""}
    return named[cell] if cell in named else int(cell)
