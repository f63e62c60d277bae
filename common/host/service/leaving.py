"""Ends a process without tearing down what it has loaded: with torch that would take up to half a second."""

import atexit
import os
import sys
import threading
from typing import NoReturn


def leave(code: int) -> NoReturn:
    """End this process, after its exit handlers have run and its outputs have been flushed.

    If anything is unusual, such as a thread of an environment that still works, or an output that is broken, the
    process ends by SystemExit, as usual.
    """
    others = (one for one in threading.enumerate() if one is not threading.current_thread())
    if all(one.daemon for one in others):
        atexit._run_exitfuncs()
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (AttributeError, OSError, ValueError):  # there is none, or it is broken or closed
            sys.exit(code)
        os._exit(code)
    sys.exit(code)
