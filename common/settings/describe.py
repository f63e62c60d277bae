"""The allowed values of settings in words, from the types of the sections, and their meanings, from the docstrings."""

import ast
from inspect import getsource
from itertools import pairwise

from msgspec import inspect

from common.settings import sections


def describe(kind: inspect.Type) -> str:
    """Return words for a type, such as `one of fixed, load`, `a number above 0`, `a list, each a whole number ...`."""
    match kind:
        case inspect.Metadata(extra_json_schema={"description": str(words)}):
            return words
        case inspect.BoolType():
            return "true or false"
        case inspect.LiteralType():
            return "one of " + ", ".join(str(value) for value in kind.values)
        case inspect.IntType():
            return "a whole number" + _bounds(kind)
        case inspect.FloatType():
            return "a number" + _bounds(kind)
        case inspect.StrType():
            if kind.pattern is not None:
                return f"text matching {kind.pattern}"
            return "text, not empty" if kind.min_length else "text"
        case inspect.ListType():
            lengths = "" if kind.max_length is None else f", {kind.min_length} to {kind.max_length} of them"
            return f"a list, each {describe(kind.item_type)}{lengths}"
        case inspect.DictType():
            return f"a table, each value {describe(kind.value_type)}"
        case inspect.UnionType():
            return ", or ".join(describe(one) for one in kind.types if not isinstance(one, inspect.NoneType))
        case inspect.StructType():
            return "a section"
        case _:
            raise TypeError(f"no words for {kind}")


def choices(path: str) -> list[str]:
    """Return the words that a setting may be; empty if any value of its type is allowed, or no such setting exists."""
    kind: inspect.Type = inspect.type_info(sections.Settings)
    for name in path.split("."):
        fields = {field.name: field.type for field in kind.fields} if isinstance(kind, inspect.StructType) else {}
        if name not in fields:
            return []
        kind = fields[name]
    return words_of(kind)


def words_of(kind: inspect.Type) -> list[str]:
    """Return the words that a value of this type may be; empty if there is no such list."""
    match kind:
        case inspect.Metadata(extra_json_schema={"description": str(words)}) if words.startswith("one of "):
            return [word for word in words.removeprefix("one of ").split(", ") if not word.startswith("or ")]
        case inspect.BoolType():
            return ["false", "true"]
        case inspect.LiteralType():
            return [str(value) for value in kind.values]
        case inspect.UnionType():
            return [word for one in kind.types for word in words_of(one)]
        case _:
            return []


def meanings() -> dict[str, str]:
    """Return the docstring of each section and setting, by paths such as `algorithm` and `algorithm.gamma`."""
    found: dict[str, str] = {}
    kinds: dict[str, type[sections.Section]] = {"": sections.Settings, **sections.SECTIONS}
    classes = {node.name: node for node in ast.parse(getsource(sections)).body if isinstance(node, ast.ClassDef)}
    for name, kind in kinds.items():
        node = classes[kind.__name__]
        found[name] = ast.get_docstring(node) or ""
        for field, words in pairwise(node.body):
            match field, words:
                case ast.AnnAssign(target=ast.Name(id=key)), ast.Expr(value=ast.Constant(value=str(text))):
                    found[f"{name}.{key}".removeprefix(".")] = " ".join(text.split())
    return found


def _bounds(kind: inspect.IntType | inspect.FloatType) -> str:
    if kind.ge is not None and kind.le is not None:
        return f" from {kind.ge} to {kind.le}"
    words = {"of at least": kind.ge, "above": kind.gt, "of at most": kind.le, "below": kind.lt}
    said = [f"{word} {bound}" for word, bound in words.items() if bound is not None]
    return " " + " and ".join(said) if said else ""
