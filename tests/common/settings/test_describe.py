from __future__ import annotations

from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta, inspect

from common.settings.describe import choices, describe, meanings
from common.settings.sections import SECTIONS, Settings
from common.settings.toml import by_path


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("seed", "a whole number from 0 to 2147483647"),
        ("environment.id", "text, not empty"),
        ("environment.num_envs", "a whole number from 1 to 1024"),
        ("environment.options", "a table, each value true or false, or a whole number, or a number, or text"),
        ("network.hidden", "a list, each a whole number from 1 to 8192, 1 to 16 of them"),
        ("network.shared", "true or false"),
        (
            "network.kind",
            "one of auto, dense, conv-a3c, conv-students, conv-nature, conv-impala, or module:Class",
        ),
        ("optimizer.learning_rate", "a number above 0"),
        ("optimizer.beta1", "a number of at least 0 and below 1"),
        ("optimizer.device", "one of auto, cpu, cuda, cuda:N, or several as in cuda:0,cuda:1"),
        ("scaling.policy", "one of episode-duration, fixed, load"),
        ("scaling.additions", "a list, each a whole number of at least 1"),
        ("limits.until_return", "a number"),
        ("limits", "a section"),
    ],
)
def test_words(path: str, words: str) -> None:
    kind: Any = inspect.type_info(Settings)
    for name in path.split("."):
        kind = {field.name: field.type for field in kind.fields}[name]
    assert describe(kind) == words


def test_every_setting_has_words() -> None:
    root: Any = inspect.type_info(Settings)
    for section in root.fields:
        for field in getattr(section.type, "fields", (section,)):
            assert describe(field.type)


def test_upper_bounds_alone() -> None:
    assert describe(inspect.type_info(Annotated[int, Meta(le=3)])) == "a whole number of at most 3"


def test_a_kind_without_words_is_an_error() -> None:
    with pytest.raises(TypeError, match="no words for"):
        describe(inspect.type_info(msgspec.Raw))


def test_the_words_that_a_setting_may_be() -> None:
    assert choices("network.kind") == ["auto", "dense", "conv-a3c", "conv-students", "conv-nature", "conv-impala"]
    assert choices("exchange.error_feedback") == ["false", "true", "auto"]
    assert choices("seed") == choices("limits") == choices("no.such") == []


def test_every_section_and_setting_says_what_it_is_for() -> None:
    told = meanings()
    assert set(told) == {"", *SECTIONS, *by_path(Settings())}
    assert all(told.values())
    assert told["algorithm.gamma"] == "Discount of the rewards of later steps."
    assert told["limits"] == "When the run ends: at the first limit reached; 0: no such limit."
