"""Writes the generated parts of protocol.md: `python docs/make_protocol.py` after the protocol has changed."""

from __future__ import annotations

import ast
import importlib
import inspect as sources
from pathlib import Path
from typing import Any, get_args

import msgspec
from msgspec import inspect

from common.wire import messages
from common.wire.messages import AnyMessage, Message
from common.wire.protocol import PEERS, REFUSALS, RULES, Refusal

DOCUMENT = Path(__file__).parent / "protocol.md"
CONSTANTS = {
    "common.wire.membership": (
        "HELLO_SECONDS",
        "SLOW_HELLO_SECONDS",
        "REFUSED_SECONDS",
        "UNSENT_SECONDS",
        "FIRST_NOTICE_SECONDS",
    ),
    "actor.core": ("RESEND_SECONDS", "PULL_SECONDS", "SLOW_PULL_SECONDS"),
    "actor.evaluator.core": ("ASK_SECONDS",),
    "learner.reports": ("STATUS_SECONDS", "ASKED_SECONDS"),
    "learner.parameters.publisher": ("WELCOME_BYTES",),
    "learner.parameters.pulls": ("UNDER_WAY_SECONDS",),
    "learner.daemon": ("DISMISS_SECONDS", "REMIND_SECONDS"),
    "actor.players.action_requests": ("RESEND_SECONDS",),
    "common.settings.exchanges": ("MOST_SUMMED",),
    "relay.uplink": ("REPORT_SECONDS",),
    "learner.exclusion": ("BAD_IN_A_ROW",),
    "learner.replay_window": ("SEQUENCE_WINDOW", "REMEMBERED"),
    "learner.staleness": ("SMALLEST_LIMIT",),
    "learner.exchange.step_rule": ("ACTORS_PER_GRADIENT",),
    "common.wire.frames": ("MAX_HEADER_BYTES",),
    "common.wire.client": ("MAX_FAILED_HANDSHAKES", "MAX_REPLY_BYTES"),
    "common.wire.sockets": ("HIGH_WATER_MARK",),
}
DESCRIBED = {
    "security": "common.host.security",
    "weights": "common.wire.bodies.weights",
    "delta": "common.wire.bodies.delta",
    "trajectory": "common.wire.bodies.trajectory",
    "observations": "common.wire.bodies.observations",
    "broadcast": "common.wire.bodies.broadcast",
}
"""Parts of the document that are the docstring of a module."""
_NATURAL = (0, 2**63 - 1)


def generate(document: str) -> str:
    """The document with everything between its markers written anew."""
    parts = {
        "number": f"The protocol's number is {messages.PROTOCOL}.",
        "messages": message_tables(),
        "refusals": refusal_table(),
        "constants": constant_table(),
    }
    parts |= {name: sources.getdoc(importlib.import_module(module)) or "" for name, module in DESCRIBED.items()}
    for name, text in parts.items():
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
        rule = RULES[kind]
        overview.append(
            [
                f"[`{_tag(kind)}`](#{_tag(kind)})",
                f"{_roles(rule.senders)} -> {_roles(rule.receivers)}",
                rule.state or "any",
                " / ".join(f"`{_tag(answer)}`" for answer in rule.answers),
                " ".join((kind.__doc__ or "").split()),
                rule.body,
            ]
        )
        details.append(f"### {_tag(kind)}\n\n{_fields(kind)}")
    head = ["message", "from -> to", "peer is", "answered by", "meaning", "body"]
    return "\n\n".join([_table(head, overview), *details])


def _tag(kind: type[Message]) -> str:
    return str(kind.__struct_config__.tag)


def _roles(roles: tuple[str, ...]) -> str:
    if set(PEERS) <= set(roles):
        return "any peer or the learner" if "learner" in roles else "any peer"
    return ", ".join(roles)


def refusal_table() -> str:
    """The codes of `refused`."""
    rows = [
        [
            f"`{code}`",
            refusal.meaning,
            _consequence(refusal),
        ]
        for code, refusal in REFUSALS.items()
    ]
    return _table(["refusal code", "meaning", "the peer"], rows)


def _consequence(refusal: Refusal) -> str:
    if refusal.error is None:
        return "says hello again"
    end = f"ends, exit code {refusal.error.exit_code}"
    return f"says hello again, ever more slowly; an observer or operator {end}" if refusal.passes else end


def constant_table() -> str:
    """The numbers that both ends use."""
    rows = []
    for module, names in CONSTANTS.items():
        source = (DOCUMENT.parents[1] / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
        meanings = _meanings(source)[""]
        values = {
            node.targets[0].id: eval(ast.unparse(node.value), {})  # not imported: that would load torch
            for node in ast.parse(source).body
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in names
        }
        rows += [[f"`{name}`", f"{values[name]:,}", meanings[name], f"`{module}`"] for name in names]
    return _table(["name", "value", "meaning", "in"], rows)


def _fields(kind: type[Message]) -> str:
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    found = _meanings(sources.getsource(messages))
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
        case inspect.StructType(array_like=True):
            return ", ".join(words(field.type) for field in kind.fields)
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


def _meanings(source: str) -> dict[str, dict[str, str]]:
    """The strings under assignments: by class ("" for the module), then by name."""
    found: dict[str, dict[str, str]] = {}
    tree = ast.parse(source)
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
