"""The result of one check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """What was checked, the result, and for `warn` and `bad` how to mend it.

    bad: a3cd will not run here as asked. warn: it will, but something is missing or slower than it could be.
    """

    name: str
    state: Literal["ok", "warn", "bad"]
    text: str
    mend: str = ""
