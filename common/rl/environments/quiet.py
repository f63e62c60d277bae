"""Keeps the prints of environments away from stdout, which carries results."""

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator

import gymnasium


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Send prints to stderr and drop warnings; banners of pygame and ALE stay off for the rest of the process."""
    os.environ["PYGAME_HIDE_SUPPORT_PROMPT"] = "hide"
    gymnasium.logger.min_level = gymnasium.logger.ERROR
    if ale_py := sys.modules.get("ale_py"):
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
