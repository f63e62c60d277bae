"""Every name of the settings is an algorithm."""

from typing import get_args, get_type_hints

from common.rl.algorithms.exploration import EpsilonGreedy
from common.rl.algorithms.registry import METHODS, ValueMethod
from common.settings.exchanges import EXCHANGES
from common.settings.sections import Algorithm, Exchange


def test_every_kind_of_the_settings_is_there() -> None:
    assert set(METHODS) == set(EXCHANGES) == set(get_args(get_type_hints(Algorithm)["kind"]))


def test_every_way_to_exchange_is_some_algorithm_s() -> None:
    allowed = {kind for exchanges in EXCHANGES.values() for kind in exchanges}
    assert allowed | {"auto"} == set(get_args(get_type_hints(Exchange)["kind"]))


def test_those_that_learn_values_explore() -> None:
    exploring = {name for name, method in METHODS.items() if method.acting is EpsilonGreedy}
    assert exploring == {name for name, method in METHODS.items() if isinstance(method, ValueMethod)}
