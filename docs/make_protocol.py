"""Writes the tables of protocol.md that the code holds: `python docs/make_protocol.py` after a message has changed."""

from __future__ import annotations

import ast
import importlib
import inspect as sources
import re
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import msgspec
from msgspec import inspect

from common.wire import messages
from common.wire.messages import AnyMessage, Message

DOCUMENT = Path(__file__).parent / "protocol.md"
CONSTANTS = {
    "common.wire.membership": ("HELLO_SECONDS", "UNSENT_SECONDS", "FIRST_NOTICE_SECONDS"),
    "actor.core": ("RESEND_SECONDS", "PULL_SECONDS"),
    "actor.players.action_requests": ("RESEND_SECONDS",),
    "learner.exchange.base": ("BAD_IN_A_ROW",),
    "learner.peers": ("SEQUENCE_WINDOW", "REMEMBERED"),
    "learner.exchange.staleness": ("SMALLEST_LIMIT",),
    "learner.exchange.step_rule": ("ACTORS_PER_GRADIENT",),
    "common.wire.frames": ("MAX_HEADER_BYTES",),
    "common.wire.client": ("MAX_REPLY_BYTES", "MAX_ROUTING_ID"),
    "common.wire.sockets": ("HIGH_WATER_MARK", "UNREAD_MARK"),
}
_SUMMARY = re.compile(r"(?P<way>[^:]+): (?P<says>.*?)(?: Body: (?P<body>.*))?")
_NATURAL = (0, 2**63 - 1)


def generate(document: str) -> str:
    """The document with everything between its markers written anew."""
    for name, text in (("messages", message_tables()), ("constants", constant_table())):
        begin, end = f"<!-- {name}: written by make_protocol.py -->", f"<!-- end of {name} -->"
        before, found, rest = document.partition(begin)
        _, also_found, after = rest.partition(end)
        if not (found and also_found):
            raise ValueError(f"{DOCUMENT.name} has no {begin} ... {end}")
        document = f"{before}{begin}\n\n{text}\n\n{end}{after}"
    return document


def message_tables() -> str:
    """All messages in one table, then the fields of each."""
    overview, details = [], []
    kind: type[Message]
    for kind in get_args(AnyMessage):
        summary = _SUMMARY.fullmatch(" ".join((kind.__doc__ or "").split()))
        if summary is None:
            raise ValueError(f"{kind.__name__}: its docstring is not `from -> to: what it says. Body: ...`")
        tag = str(kind.__struct_config__.tag)
        overview.append([f"[`{tag}`](#{tag})", summary["way"], summary["says"], summary["body"] or ""])
        details.append(f"### {tag}\n\n{_fields(kind)}")
    return "\n\n".join([_table(["message", "from -> to", "says", "body"], overview), *details])


def constant_table() -> str:
    """The numbers that both ends go by."""
    rows = []
    for module_name, names in CONSTANTS.items():
        module = importlib.import_module(module_name)
        meanings = _meanings(module)[""]
        rows += [[f"`{name}`", f"{getattr(module, name):,}", meanings[name], f"`{module_name}`"] for name in names]
    return _table(["name", "value", "meaning", "in"], rows)


def _fields(kind: type[Message]) -> str:
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    found = _meanings(messages)
    meanings: dict[str, str] = {}
    for one in reversed(kind.__mro__):
        meanings |= found.get(one.__name__, {})
    rows = [
        [f"`{field.name}`", words(field.type), _default(field), meanings.get(field.name, "")] for field in info.fields
    ]
    return _table(["field", "type", "default", "meaning"], rows) if rows else "No fields."


def words(kind: inspect.Type) -> str:
    """The type of a field, short."""
    match kind:
        case inspect.LiteralType():
            return " / ".join(f"`{value}`" for value in kind.values)
        case inspect.IntType() if (kind.ge, kind.le) == _NATURAL:
            return "natural"
        case inspect.IntType():
            return "int" if kind.ge is None else f"int, {kind.ge} to {kind.le:,}"
        case inspect.FloatType():
            return "float" if kind.gt is None else f"float > {kind.gt:g}"
        case inspect.StrType():
            return f"text, {kind.min_length or 0} to {kind.max_length}"
        case inspect.BoolType():
            return "bool"
        case inspect.AnyType():
            return "any"
        case inspect.ListType():
            return f"list of ({words(kind.item_type)})" + _most(kind)
        case inspect.TupleType():
            return ", ".join(words(one) for one in kind.item_types)
        case inspect.DictType():
            return f"map to ({words(kind.value_type)})" + _most(kind)
    raise TypeError(f"no words for {kind}")


def _most(kind: inspect.ListType | inspect.DictType) -> str:
    return "" if kind.max_length is None else f", at most {kind.max_length}"


def _default(field: inspect.Field) -> str:
    if field.required:
        return ""
    default = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    return f"`{msgspec.json.encode(default).decode()}`"


def _meanings(module: ModuleType) -> dict[str, dict[str, str]]:
    """The strings under assignments: by class ("" for the module), then by name."""
    found: dict[str, dict[str, str]] = {}
    tree = ast.parse(sources.getsource(module))
    scopes: list[ast.Module | ast.ClassDef] = [tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))]
    for scope in scopes:
        below = found.setdefault(getattr(scope, "name", ""), {})
        for node, following in zip(scope.body, scope.body[1:], strict=False):
            match node, following:
                case (
                    ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    below[name] = " ".join(text.split())
    return found


def _table(head: list[str], rows: list[list[Any]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


if __name__ == "__main__":
    DOCUMENT.write_text(generate(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
