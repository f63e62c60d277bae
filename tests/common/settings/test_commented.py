"""Files of settings for a person to change: what they say is what the settings are."""

from __future__ import annotations

import re
import tomllib

import msgspec
import pytest

from common.run import presets
from common.settings.commented import WIDTH, commented, toml
from common.settings.sections import Settings
from common.settings.toml import by_path, override, parse

DEFAULT = re.compile(r"^#(?=\w+ = )", re.MULTILINE)


@pytest.mark.parametrize("name", presets.names())
def test_it_is_read_back_as_it_was(name: str) -> None:
    preset = presets.show(name)
    text = commented(preset.settings(), preset.text)
    assert parse(text, "") == preset.settings()
    assert parse(DEFAULT.sub("", text), "") == preset.settings(), "a default that is taken in changes nothing"
    for algorithm in ("ppo", "n-step-q", "a3c"):
        assert parse(text, "", algorithm).algorithm.kind == algorithm
        if algorithm in text:
            other = presets.show(name).settings(algorithm)
            assert parse(commented(other, preset.text), "") == other


def test_every_setting_is_in_it_with_what_it_means() -> None:
    text = commented(Settings())
    document = tomllib.loads(DEFAULT.sub("", text))
    for path, value in by_path(Settings()).items():
        section, _, key = path.rpartition(".")
        assert (document[section] if section else document).get(key) == value, path
        assert re.search(rf"^(# .+\n)+(#|# |){key} (=|is not set)", text, re.MULTILINE), path
    assert "# Discount of the rewards of later steps. [a number from 0 to 1]\n#gamma = 0.99\n" in text
    assert "# beta1 is not set.\n" in text
    assert max(map(len, text.splitlines())) <= WIDTH + 20


def test_the_preset_says_why_where_its_value_stayed() -> None:
    preset = presets.show("CartPole-v1")
    changed = override(preset.settings(), ["algorithm.rollout_length=8"])
    text = commented(changed, preset.text)
    assert 'activation = "relu"  # cheaper than tanh' in text
    assert "\nrollout_length = 8\n" in text
    assert "[for.ppo.optimizer]" in text
    assert "[for." not in commented(preset.settings("ppo"), preset.text), "they would go before what stands above"


@pytest.mark.parametrize(
    "value",
    [
        *("", 'a "quoted" \\ one', "tab\tand\nline", "\x7f", "é€😀", True, 0, 9_999, 10_000, -2_000_000),
        *(1e-10, 1e300, 0.1, [1, [2.5, "x"]], [], {}, {"a": 1, "b c": {"d": [True]}}),
    ],
)
def test_values(value: object) -> None:
    assert tomllib.loads(f"x = {toml(value)}") == {"x": value}


def test_tables_within_a_section_stay_on_a_line() -> None:
    settings = msgspec.convert({"environment": {"options": {"size": 3}, "wrappers": ["a:B"]}}, Settings)
    text = commented(settings)
    assert "\noptions = { size = 3 }\n" in text and '\nwrappers = ["a:B"]\n' in text
    assert parse(text, "") == settings
