"""The messages' frozen form. golden.json holds one example of each, with every field set, and its bytes.

When a test here fails because a message was changed on purpose: raise PROTOCOL, and write the new bytes there.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

import msgpack
import msgspec
import pytest
from msgspec import inspect

from common.errors import WireError
from common.wire.frames import pack, unpack
from common.wire.messages import PROTOCOL, AnyMessage, Message

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "golden.json").read_text())
EXAMPLES: dict[str, dict[str, Any]] = GOLDEN["messages"]
CLASSES: dict[str, type[Message]] = {kind.__name__: kind for kind in get_args(AnyMessage)}
FIELDS = [(name, field) for name, kind in CLASSES.items() for field in inspect.type_info(kind).fields]  # type: ignore[attr-defined]


def refused(name: str, fields: dict[str, Any]) -> str:
    """Why a message of these fields is not read."""
    with pytest.raises(WireError) as caught:
        unpack(msgpack.packb({"type": name.lower(), **fields}))
    return str(caught.value)


def with_field(name: str, field: str, value: object) -> dict[str, Any]:
    return {**EXAMPLES[name]["fields"], field: value}


def test_every_message_has_an_example_of_this_protocol() -> None:
    assert list(EXAMPLES) == list(CLASSES)
    assert GOLDEN["protocol"] == PROTOCOL


@pytest.mark.parametrize("name", EXAMPLES)
def test_golden_bytes(name: str) -> None:
    fields, golden = EXAMPLES[name]["fields"], bytes.fromhex(EXAMPLES[name]["hex"])
    assert set(fields) == set(CLASSES[name].__struct_fields__), "an example sets every field"
    message: Any = msgspec.convert(fields, CLASSES[name])
    assert pack(message).hex() == golden.hex(), "changed on purpose? then raise PROTOCOL"
    assert unpack(golden) == message


@pytest.mark.parametrize("name", CLASSES)
def test_messages_are_frozen_and_strict(name: str) -> None:
    config = CLASSES[name].__struct_config__
    assert config.frozen
    assert config.forbid_unknown_fields
    assert config.tag == name.lower()
    assert CLASSES[name].__doc__


@pytest.mark.parametrize("name", CLASSES)
def test_an_unknown_field_is_refused(name: str) -> None:
    assert "contains unknown field `surplus`" in refused(name, with_field(name, "surplus", 1))


@pytest.mark.parametrize(("name", "field"), [(name, field.name) for name, field in FIELDS if field.required])
def test_a_missing_field_is_refused(name: str, field: str) -> None:
    fields = dict(EXAMPLES[name]["fields"])
    del fields[field]
    why = refused(name, fields)
    assert f"missing required field `{field}`" in why or (field == "protocol" and "protocol None is not" in why)


@pytest.mark.parametrize(("name", "field"), [(name, field.name) for name, field in FIELDS if field.name != "protocol"])
@pytest.mark.parametrize("value", [None, [[]], [{"a": 1}], {"a": {"b": [[]]}}, b""], ids=repr)
def test_a_wrong_type_is_refused_and_named(name: str, field: str, value: object) -> None:
    if isinstance(value, dict) and field in ("settings", "report"):
        return
    assert re.search(rf" - at `\$\.{field}\b", refused(name, with_field(name, field, value)))


@pytest.mark.parametrize(
    ("name", "field"),
    [(name, field.name) for name, field in FIELDS if isinstance(field.type, inspect.IntType) and name != "Hello"],
)
@pytest.mark.parametrize("value", [-1, -(2**63), 2**63, 2**64 - 1, 1.0, float("nan"), True, "1"])
def test_a_number_that_cannot_be_is_refused_and_named(name: str, field: str, value: object) -> None:
    assert f" - at `$.{field}`" in refused(name, with_field(name, field, value))


@pytest.mark.parametrize(
    ("name", "field", "value", "why"),
    [
        ("Hello", "role", "learner", "Invalid enum value 'learner' - at `$.role`"),
        ("Hello", "name", "", "Expected `str` of length >= 1 - at `$.name`"),
        ("Hello", "name", "n" * 129, "Expected `str` of length <= 128 - at `$.name`"),
        ("Hello", "launcher", "n" * 129, "Expected `str` of length <= 128 - at `$.launcher`"),
        ("Hello", "pid", -1, "Expected `int` >= 0 - at `$.pid`"),
        ("Hello", "slots", 2**63, "at `$.slots`"),
        ("Hello", "versions", {str(number): "" for number in range(33)}, "length <= 32 - at `$.versions`"),
        ("Hello", "codecs", ["none"] * 65, "length <= 64 - at `$.codecs`"),
        ("Hello", "codecs", ["none", 3], "Expected `str`, got `int` - at `$.codecs[1]`"),
        ("Welcome", "heartbeat_seconds", 0.0, "Expected `float` > 0.0 - at `$.heartbeat_seconds`"),
        ("Welcome", "heartbeat_seconds", float("nan"), "at `$.heartbeat_seconds`"),
        ("Welcome", "expiry_seconds", -1.0, "at `$.expiry_seconds`"),
        ("Refused", "code", "because", "Invalid enum value 'because' - at `$.code`"),
        ("Refused", "reason", "r" * 4097, "Expected `str` of length <= 4096 - at `$.reason`"),
        ("Gradient", "model", "m" * 129, "at `$.model`"),
        ("Gradient", "steps", 10**9 + 1, "Expected `int` <= 1000000000 - at `$.steps`"),
        ("Gradient", "count", 0, "Expected `int` >= 1 - at `$.count`"),
        ("Gradient", "episodes", [[1.0, 2]], "at `$.episodes[0]`"),
        ("Gradient", "episodes", [[1.0, 2, 3.0], [1.0, "2", 3.0]], "at `$.episodes[1][1]`"),
        ("Gradient", "statistics", {"entropy": "low"}, "at `$.statistics[...]`"),
        ("Gradient", "statistics", {f"{number}": 0.0 for number in range(65)}, "at `$.statistics`"),
        ("Acknowledgement", "verdict", "perhaps", "Invalid enum value 'perhaps' - at `$.verdict`"),
        ("Heartbeat", "state", "s" * 65, "Expected `str` of length <= 64 - at `$.state`"),
    ],
)
def test_a_value_out_of_bounds_is_refused_and_named(name: str, field: str, value: object, why: str) -> None:
    assert why in refused(name, with_field(name, field, value))
