"""Log lines of a daemon: one line per record on stderr, for a terminal or for the journal.

12:34:56 learner  text key=value      on a terminal, in a file
<6>learner  text key=value            where stderr is systemd's journal, which has its own clock
"""

import logging
import math
import os
import sys
import time
from collections.abc import Hashable

from common.errors import A3cdError

_PRIORITIES = {logging.CRITICAL: 2, logging.ERROR: 3, logging.WARNING: 4, logging.INFO: 6, logging.DEBUG: 7}
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))} | {ord("\n"): " | ", ord("\t"): " "}
MAX_LINE = 500
"""Most characters of a line that quotes a peer."""
_MAX_KEYS = 256
_MAX_KEY = 300
"""Most characters of a key by which lines are told apart."""


def printable(text: str) -> str:
    """Return `text` on one line without control characters; text from peers and environments may contain anything."""
    return text.rstrip("\r\n").translate(_CONTROLS)


def line(text: str, **values: object) -> str:
    """Return `text key=value ...`; floats are rounded, values with spaces quoted."""
    return " ".join([text, *(f"{key}={_value(value)}" for key, value in values.items())])


def _value(value: object) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return repr(text) if not text or " " in text else text


class _Stderr(logging.Handler):
    """Looks up sys.stderr each time, since the live panel replaces it."""

    def __init__(self, daemon: str, journal: bool) -> None:
        super().__init__()
        self._daemon = daemon
        self._journal = journal

    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        if record.levelno >= logging.WARNING:
            text = f"{record.levelname.lower()}: {text}"
        if record.exc_info:
            text = f"{text}\n{logging.Formatter().formatException(record.exc_info)}"
        start = time.strftime("%H:%M:%S ", time.localtime(record.created))
        if self._journal:
            start = f"<{_PRIORITIES.get(record.levelno, 6)}>"
        return f"{start}{self._daemon:<8} {printable(text)}"

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except Exception:
            self.handleError(record)


def setup(name: str, level: int | str = logging.INFO) -> None:
    """Send all records of this process to stderr under `name`; a second call replaces the first."""
    root = logging.getLogger()
    for handler in root.handlers[:]:
        if isinstance(handler, _Stderr):
            root.removeHandler(handler)
    root.addHandler(_Stderr(name, _stderr_is_journal()))
    root.setLevel(level)
    logging.getLogger("matplotlib").setLevel(logging.WARNING)  # it tells of its list of fonts


def _stderr_is_journal() -> bool:
    """Return whether stderr is $JOURNAL_STREAM (device:inode, systemd.exec(5)), which a process may have without it."""
    try:
        status = os.fstat(sys.stderr.fileno())
    except (OSError, ValueError):
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


def fail(error: A3cdError) -> int:
    """Log the error with which the process ends, and return its exit code."""
    logging.getLogger(__name__).error(str(error))
    return error.exit_code


def again(held: int) -> str:
    """Return the suffix for a repeated message of which `Limited` held some back."""
    return f" ({held} more like this since the last)" if held else ""


def held_back(lines: int) -> str:
    """Return the suffix for a line before which `Throttle` held others back."""
    return f" (and {lines} more lines held back before this one)" if lines else ""


def cut(text: str) -> str:
    """Return `text`, cut to the length that a line with a peer's text may have."""
    return text if len(text) <= MAX_LINE else f"{text[:MAX_LINE]}... ({len(text)} characters)"


class Throttle:
    """Admits `per_second` lines a second, whatever their content, after a burst; counts the others."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second, self._burst = per_second, burst
        self._room = float(burst)
        self._at = -math.inf
        self._held = 0

    def admit(self, now: float) -> int | None:
        """Return how many lines were held back since the last one; None: hold this one back too."""
        self._room = min(self._burst, self._room + (now - self._at) * self._per_second)
        self._at = now
        if self._room < 1:
            self._held += 1
            return None
        self._room -= 1
        held, self._held = self._held, 0
        return held


class Limited:
    """Admits a repeated message once per interval, and counts the others."""

    def __init__(self, interval_seconds: float) -> None:
        self._interval = interval_seconds
        self._seen: dict[Hashable, tuple[float, int]] = {}

    def admit(self, key: Hashable, now: float) -> int | None:
        """Return how many messages of `key` were held back since the last one; None: hold this one back too."""
        if isinstance(key, str):
            key = key[:_MAX_KEY]
        last, held = self._seen.get(key, (-math.inf, 0))
        if now - last < self._interval:
            self._seen[key] = (last, held + 1)
            return None
        self._seen.pop(key, None)
        if len(self._seen) >= _MAX_KEYS:  # keys may come from peers: drop the oldest
            del self._seen[next(iter(self._seen))]
        self._seen[key] = (now, 0)
        return held


class LineLimit:
    """Both limits, for lines that peers can cause: on equal lines, and on all lines together."""

    def __init__(self, repeat_seconds: float, per_second: float, burst: int) -> None:
        self._repeated = Limited(repeat_seconds)
        self._throttle = Throttle(per_second, burst)

    def admit(self, now: float, key: str, *, throttled: bool = True) -> str | None:
        """Return a suffix that says how many lines were held back; None: hold this one back too.

        Lines with the same `key` are equal; a line without a key is equal to no other.
        """
        repeated = self._repeated.admit(key, now) if key else 0
        if repeated is None:
            return None
        held = self._throttle.admit(now) if throttled else 0
        if held is None:
            return None
        return again(repeated) + held_back(held)
