"""Every name of the settings is an algorithm."""

from typing import get_args, get_type_hints

from common.algorithms.registry import METHODS
from common.settings.sections import Algorithm


def test_every_kind_of_the_settings_is_there() -> None:
    assert set(METHODS) == set(get_args(get_type_hints(Algorithm)["kind"]))
