from __future__ import annotations

import ast
import inspect
from typing import Any, get_args, get_type_hints

import msgspec
import pytest

from common.settings import sections
from common.settings.codec_names import CODECS, STAGES
from common.settings.sections import SECTIONS, Exchange, Limits, Settings
from common.settings.validate import check
from common.wire.bodies.broadcast import FORMATS
from common.wire.frames import pack, unpack
from common.wire.messages import Welcome

FIELDS = [(name, field.name) for name, kind in SECTIONS.items() for field in msgspec.structs.fields(kind)]


def one(section: str, key: str, value: object) -> Settings:
    return msgspec.convert({section: {key: value}}, Settings)


def test_the_sections_are_those_of_the_run_file() -> None:
    assert list(SECTIONS) == [
        *("environment", "network", "algorithm", "optimizer", "exchange", "staleness", "scaling"),
        *("checkpoint", "evaluation", "record", "limits"),
    ]


def test_the_defaults_are_a_run() -> None:
    check(Settings())
    assert msgspec.convert(msgspec.to_builtins(Settings()), Settings) == Settings()


@pytest.mark.parametrize(("section", "key"), FIELDS)
def test_each_default_is_allowed(section: str, key: str) -> None:
    value = getattr(getattr(Settings(), section), key)
    assert one(section, key, value) == Settings()


@pytest.mark.parametrize(("section", "key"), FIELDS)
@pytest.mark.parametrize("value", [[[]], {"a": [1]}], ids=repr)
def test_a_wrong_type_is_refused_and_named(section: str, key: str, value: object) -> None:
    with pytest.raises(msgspec.ValidationError, match=rf"at `\$\.{section}\.{key}\b"):
        one(section, key, value)


@pytest.mark.parametrize("section", SECTIONS)
def test_sections_are_frozen_and_strict(section: str) -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field `surplus`"):
        one(section, "surplus", 1)
    key = msgspec.structs.fields(SECTIONS[section])[0].name
    with pytest.raises(AttributeError, match="immutable"):
        setattr(getattr(Settings(), section), key, None)


def test_settings_do_not_share_what_can_be_changed() -> None:
    fresh = msgspec.convert({"environment": {}, "network": {}, "scaling": {}}, Settings)
    again = msgspec.convert({"environment": {}, "network": {}, "scaling": {}}, Settings)
    assert fresh.environment.options is not again.environment.options
    assert fresh.network.hidden is not again.network.hidden
    assert fresh.scaling.additions is not again.scaling.additions


@pytest.mark.parametrize(
    ("section", "key", "least", "most"),
    [
        ("environment", "num_envs", 1, 1024),
        ("algorithm", "rollout_length", 1, 4096),
        ("algorithm", "gamma", 0.0, 1.0),
        ("algorithm", "gae_lambda", 0.0, 1.0),
        ("exchange", "accumulate", 1, 64),
        ("exchange", "coalesce", 1, 256),
        ("scaling", "minimum", 0, 4096),
        ("scaling", "maximum", 1, 4096),
        ("limits", "window", 1, 100_000),
    ],
)
def test_bounds(section: str, key: str, least: float, most: float) -> None:
    for value in (least, most):
        assert getattr(getattr(one(section, key, value), section), key) == value
    for value in (least - 1, most + 1):
        with pytest.raises(msgspec.ValidationError, match=rf"at `\$\.{section}\.{key}`"):
            one(section, key, value)


def test_no_limit_is_none_or_zero() -> None:
    assert Limits() == Limits(frames=0, episodes=0, seconds=0.0, until_return=None)
    assert one("limits", "until_return", None).limits == Limits()


def test_the_choices_are_those_of_the_parts_that_make_them() -> None:
    kinds = get_type_hints(Exchange)
    assert get_args(kinds["codec"]) == ("auto", *CODECS)
    assert get_args(kinds["entropy_coder"]) == ("auto", *STAGES)
    assert get_args(kinds["weights"]) == ("auto", *FORMATS)


def test_settings_reach_an_actor_as_they_are() -> None:
    plain = msgspec.to_builtins(Settings())
    welcome = unpack(pack(Welcome(run="r", epoch=1, heartbeat_seconds=1.0, expiry_seconds=2.0, settings=plain)))
    assert isinstance(welcome, Welcome)
    assert msgspec.convert(welcome.settings, Settings) == Settings()


def test_every_section_says_what_it_is_for() -> None:
    tree: Any = ast.parse(inspect.getsource(sections))
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    assert {node.name for node in classes} == {kind.__name__ for kind in SECTIONS.values()} | {"Section", "Settings"}
    assert all(ast.get_docstring(node) for node in classes)
