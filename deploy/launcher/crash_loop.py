"""Decides whether starting actors on a host is hopeless, and why."""

from __future__ import annotations

from dataclasses import dataclass

from common.errors import EXIT_CONFIGURATION, EXIT_DONE, EXIT_USAGE
from deploy.backends.base import Ended
from deploy.launcher.reconciler import STEADY_SECONDS

MOST_FAILURES = 5
"""In a row, while no actor ran steadily."""
HOPELESS = frozenset({EXIT_USAGE, EXIT_CONFIGURATION})
_WHY_CHARACTERS = 1000


@dataclass
class CrashLoop:
    """The failures on one host."""

    host: str = ""
    failures: int = 0
    """In a row, while no actor ran steadily."""
    gave_up: bool = False
    exit_code: int = EXIT_DONE
    why: str = ""

    def count(self, ended: Ended, lived: float, longest: float) -> None:
        """Counts a failure after `lived` seconds; the oldest actor that runs here has run for `longest` seconds."""
        self.failures = 0 if max(lived, longest) >= STEADY_SECONDS else self.failures + 1
        if self.gave_up or (ended.exit_code not in HOPELESS and self.failures < MOST_FAILURES):
            return
        last_word = ended.last_words.rstrip().rpartition("\n")[2][:_WHY_CHARACTERS] or "it said nothing"
        where = f"{self.host}: " if self.host else ""
        times = "" if ended.exit_code in HOPELESS else f"{self.failures} failures in a row; "
        end = f"the actor in slot {ended.slot} ended with exit code {ended.exit_code} after {lived:.1f} s"
        self.gave_up, self.exit_code = True, ended.exit_code
        self.why = f"{where}{times}{end}: {last_word}"
