from __future__ import annotations

import importlib
import pkgutil
import signal
from types import ModuleType

import pytest

import a3cd
import actor
import common
import deploy
import learner
from common import errors
from common.errors import (
    A3cdError,
    CodecError,
    ConfigurationError,
    EnvironmentMissingError,
    RefusedError,
    UnavailableError,
    WireError,
)

EXIT_CODES = {
    0: "done",
    2: "usage",
    3: "different",
    75: "try later",
    78: "configuration",
    130: "SIGINT",
    143: "SIGTERM",
}


def _all_errors() -> set[type[A3cdError]]:
    """Every subclass in the four rooms, whichever modules the other tests have imported."""
    room: ModuleType
    for room in (common, actor, learner, deploy):
        for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            try:
                importlib.import_module(module.name)
            except ModuleNotFoundError as missing:  # of an extra, which need not be installed
                if str(missing.name).partition(".")[0] in ("a3cd", *a3cd.ROOMS):
                    raise
    found: set[type[A3cdError]] = set()
    new = [A3cdError]
    while new:
        found.update(new)
        new = [below for one in new for below in one.__subclasses__()]
    return found


def test_the_exit_codes_are_the_ones_promised() -> None:
    named = {name: value for name, value in vars(errors).items() if name.startswith("EXIT_")}
    assert set(named.values()) == set(EXIT_CODES)
    assert (errors.EXIT_DONE, errors.EXIT_USAGE, errors.EXIT_DIFFERENT) == (0, 2, 3)
    assert (errors.EXIT_TRY_LATER, errors.EXIT_CONFIGURATION) == (75, 78)
    assert errors.EXIT_SIGINT == 128 + signal.SIGINT
    assert errors.EXIT_SIGTERM == 128 + signal.SIGTERM


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigurationError, 78),
        (EnvironmentMissingError, 78),
        (RefusedError, 78),
        (UnavailableError, 75),
        (WireError, 75),
        (CodecError, 75),
    ],
)
def test_the_exit_code_of(error: type[A3cdError], code: int) -> None:
    assert error.exit_code == code
    assert str(error("one line")) == "one line"


def test_every_error_stands_on_the_one_page_and_has_a_promised_code() -> None:
    for error in _all_errors():
        assert error.__module__ == "common.errors", error
        assert error.exit_code in (errors.EXIT_TRY_LATER, errors.EXIT_CONFIGURATION), error
        assert error.__doc__, error
