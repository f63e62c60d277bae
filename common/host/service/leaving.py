"""The end of a process, without taking apart what it has loaded: with torch that takes up to half a second."""

import atexit
import os
import sys
import threading
from typing import NoReturn


def leave(code: int) -> NoReturn:
    """End this process: what is registered for its end is done, and what was written is out.

    Where anything is unusual, as a thread of an environment's that still works or an output that takes nothing more,
    it ends as usual: by SystemExit.
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
