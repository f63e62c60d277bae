"""Keeps what environments print away from stdout, which carries results, and windows from opening unasked."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator

import gymnasium


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """While a package of environments is imported or one is made: prints go to stderr, warnings nowhere.

    From then on in this process pygame and ALE announce themselves no more and gymnasium gives no advice.
    """
    os.environ["PYGAME_HIDE_SUPPORT_PROMPT"] = "hide"
    gymnasium.logger.min_level = gymnasium.logger.ERROR
    if ale_py := sys.modules.get("ale_py"):
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def draw_into_memory() -> None:
    """Lets SDL, which pygame draws with, do without a display and sound card; this process opens no window later.

    What the operator chose in SDL_VIDEODRIVER or SDL_AUDIODRIVER stands.
    """
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
