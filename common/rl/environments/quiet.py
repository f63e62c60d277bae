"""Keeps the prints of environments away from stdout, which carries results."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator

import gymnasium


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """While a package of environments is imported or one is made: send prints to stderr and drop warnings.

    For the rest of the process the banners of pygame and ALE and the warnings of gymnasium are off.
    """
    os.environ["PYGAME_HIDE_SUPPORT_PROMPT"] = "hide"
    gymnasium.logger.min_level = gymnasium.logger.ERROR
    if ale_py := sys.modules.get("ale_py"):
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
