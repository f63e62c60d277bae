"""Keeps the prints of environments away from stdout, which carries results, and windows from opening."""

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


def draw_into_memory() -> None:
    """Let SDL, which pygame draws with, work without display and sound card; this process can open no window later.

    SDL_VIDEODRIVER and SDL_AUDIODRIVER are left as they are if the operator has set them.
    """
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
