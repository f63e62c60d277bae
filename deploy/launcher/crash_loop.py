"""Decides whether actors can run on a host now, and when to try again.

Two things say that they cannot: an actor whose exit code says that its configuration is wrong, and failures of one slot
in a row during which no actor lived, so that what fails in several slots at one moment counts once. Then none is
started until a single actor tries again, after a time that doubles with each such try, for ever: a fault passes, an
upgrade comes, a wrong file is mended. When an actor that began since then has lived, all slots are free again.
"""

import math
from collections import Counter

from common.errors import EXIT_DONE, HOPELESS
from deploy.backends.base import Ended
from deploy.launcher.reconciler import STEADY_SECONDS

MOST_FAILURES = 5
RETRY_SECONDS = 10.0
HOPELESS_RETRY_SECONDS = 60.0
LONGEST_RETRY_SECONDS = 600.0


class CrashLoop:
    def __init__(self) -> None:
        self.exit_code = EXIT_DONE
        self.why = ""
        """Why no more actors are started; empty while they are."""
        self.retry_at = -math.inf
        """When one may be, nevertheless."""
        self._failures: Counter[int] = Counter()
        """By slot, in a row, while no actor ran steadily."""
        self._retries = 0

    def count(self, now: float, ended: Ended, lived: float, longest: float) -> None:
        """Counts a failure after `lived` seconds; the oldest actor that runs here has run for `longest` seconds."""
        self._failures[ended.slot] += 1
        if max(lived, longest) >= STEADY_SECONDS:
            self._failures.clear()
        failures = self._failures[ended.slot]
        hopeless = ended.exit_code in HOPELESS
        given_up = hopeless or failures >= MOST_FAILURES
        if self.why:
            given_up = now - lived >= self.retry_at  # else it ran already, and proves nothing
        if not given_up:
            return
        first = HOPELESS_RETRY_SECONDS if hopeless else RETRY_SECONDS
        self.retry_at = now + min(first * 2.0 ** min(self._retries, 16), LONGEST_RETRY_SECONDS)
        self._retries += 1
        last_word = ended.last_words.rstrip().rpartition("\n")[2][:1000] or "it said nothing"
        times = "" if hopeless else f"{failures} failures in a row; "
        end = f"the actor in slot {ended.slot} ended with exit code {ended.exit_code} after {lived:.1f} s"
        self.exit_code, self.why = ended.exit_code, f"{times}{end}: {last_word}"

    def lives(self, now: float, age: float) -> None:
        """An actor here is so old."""
        if self.why and age >= STEADY_SECONDS and now - age >= self.retry_at:
            self.why, self.exit_code = "", EXIT_DONE
            self._failures.clear()
            self._retries = 0
