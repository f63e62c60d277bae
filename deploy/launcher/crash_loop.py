"""Decides whether actors can run on a host now, and when to try again.

Three things show that they cannot: an actor's exit code that means a wrong configuration, several failures in a row of
one slot while no actor ran steadily, or several requests in a row that started not all actors, whatever the others do:
the host may be at a limit. (Failures are counted by slot and refusals by request, so that what fails in several slots
at the same moment counts once.) From then on no actor is started, except a single one that tries again after a pause.
The pause doubles with each try up to a maximum, and the tries never end: a fault may pass, an upgrade may come, a wrong
file may be mended. When an actor that started after the pause has run steadily, actors may start in all slots again.
"""

import math
from collections import Counter

from common.errors import EXIT_DONE, EXIT_TRY_LATER, HOPELESS
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
        """When a single actor may be started nevertheless."""
        self._failures: Counter[int] = Counter()
        """Failures in a row by slot, while no actor ran steadily."""
        self._refusals = 0
        """Requests in a row that started not all actors."""
        self._retries = 0

    def count(self, now: float, ended: Ended, lived: float, longest: float) -> None:
        """Counts the failure of an actor after `lived` seconds; the oldest other actor here has run for `longest`."""
        self._failures[ended.slot] += 1
        if max(lived, longest) >= STEADY_SECONDS:
            self._failures.clear()
        failures = self._failures[ended.slot]
        hopeless = ended.exit_code in HOPELESS
        given_up = hopeless or failures >= MOST_FAILURES
        if self.why:
            given_up = now - lived >= self.retry_at  # an actor that started before proves nothing
        if not given_up:
            return
        self._pause(now, HOPELESS_RETRY_SECONDS if hopeless else RETRY_SECONDS)
        last_word = ended.last_words.rstrip().rpartition("\n")[2][:1000] or "it said nothing"
        times = "" if hopeless else f"{failures} failures in a row; "
        end = f"the actor in slot {ended.slot} ended with exit code {ended.exit_code} after {lived:.1f} s"
        self.exit_code, self.why = ended.exit_code, f"{times}{end}: {last_word}"

    def accepted(self) -> None:
        """Notes that all starts of a request were accepted."""
        self._refusals = 0

    def refused(self, now: float, asked: float, why: str) -> None:
        """Counts a request, made at `asked`, whose starts were refused, or some of them."""
        self._refusals += 1
        if (asked >= self.retry_at) if self.why else (self._refusals >= MOST_FAILURES):
            self._pause(now, RETRY_SECONDS)
            self.exit_code, self.why = EXIT_TRY_LATER, f"{self._refusals} refusals in a row to start actors: {why}"

    def _pause(self, now: float, first: float) -> None:
        self.retry_at = now + min(first * 2.0 ** min(self._retries, 16), LONGEST_RETRY_SECONDS)
        self._retries += 1

    def lives(self, now: float, age: float) -> None:
        """Takes the age of an actor that runs here: if it is old enough, actors can run here again."""
        if self.why and age >= STEADY_SECONDS and now - age >= self.retry_at:
            self.why, self.exit_code = "", EXIT_DONE
            self._failures.clear()
            self._refusals = self._retries = 0
