"""Keeps what environments print away from stdout, which carries results, and windows from opening unasked."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator

import gymnasium


@contextlib.contextmanager
def quiet(*, window: bool = False) -> Iterator[None]:
    """While a package of environments is imported or one is made: its prints go to stderr, its
    warnings nowhere.

    From then on in this process, pygame announces itself no more, nor does ALE once imported, and gymnasium's
    advice is not printed; without `window` SDL draws into memory, so that pictures need no display. A choice of the operator in
    SDL_VIDEODRIVER or SDL_AUDIODRIVER stands.
    """
    os.environ["PYGAME_HIDE_SUPPORT_PROMPT"] = "hide"
    if not window:
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
        os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    gymnasium.logger.min_level = gymnasium.logger.ERROR
    if ale_py := sys.modules.get("ale_py"):
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
