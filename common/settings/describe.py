"""The allowed values of a setting in words, from the types of the sections."""

from msgspec import inspect


def describe(kind: inspect.Type) -> str:
    """Such as `one of fixed, load`, `a number above 0`, `a list, each a whole number ...`."""
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


def _bounds(kind: inspect.IntType | inspect.FloatType) -> str:
    if kind.ge is not None and kind.le is not None:
        return f" from {kind.ge} to {kind.le}"
    words = {"of at least": kind.ge, "above": kind.gt, "of at most": kind.le, "below": kind.lt}
    said = [f"{word} {bound}" for word, bound in words.items() if bound is not None]
    return " " + " and ".join(said) if said else ""
