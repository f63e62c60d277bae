"""Decides whether starting actors on a host is hopeless, and why.

Two things are: an actor that says its configuration is wrong, and failures in a row during which no actor lived.
"""

from dataclasses import dataclass

from common.errors import EXIT_CONFIGURATION, EXIT_DONE, EXIT_USAGE
from deploy.backends.base import Ended
from deploy.launcher.reconciler import STEADY_SECONDS

MOST_FAILURES = 5
HOPELESS = frozenset({EXIT_USAGE, EXIT_CONFIGURATION})


@dataclass
class CrashLoop:
    failures: int = 0
    """In a row, while no actor ran steadily."""
    exit_code: int = EXIT_DONE
    why: str = ""
    """Why no more actors are started; empty while they are."""

    def count(self, ended: Ended, lived: float, longest: float) -> None:
        """Counts a failure after `lived` seconds; the oldest actor that runs here has run for `longest` seconds."""
        self.failures = 0 if max(lived, longest) >= STEADY_SECONDS else self.failures + 1
        hopeless = ended.exit_code in HOPELESS
        if self.why or not (hopeless or self.failures >= MOST_FAILURES):
            return
        last_word = ended.last_words.rstrip().rpartition("\n")[2][:1000] or "it said nothing"
        times = "" if hopeless else f"{self.failures} failures in a row; "
        end = f"the actor in slot {ended.slot} ended with exit code {ended.exit_code} after {lived:.1f} s"
        self.exit_code, self.why = ended.exit_code, f"{times}{end}: {last_word}"
