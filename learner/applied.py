"""What a learner's weights were made of: the entries of the record of what was applied, in order.

    began -> added -> added -> stepped -> added -> stepped -> saved -> ...

With a checkpoint they determine the weights, bit for bit on the same machine; `learner.replay` shows it.
"""

from typing import Any

import msgspec

from common.wire.messages import Gradient, Trajectory


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="entry", tag=str.lower):
    """Base class; in the file the class name in lower case is the `entry`."""


class Began(Entry, frozen=True):
    """From here on an epoch is recorded; every file of the record begins with one."""

    a3cd: str
    run: str
    epoch: int
    settings: dict[str, Any]
    """Resolved."""
    model: str
    parameters: int
    version: int
    """Of the weights that what follows is applied to."""
    frames: int
    """Of the run, at the step that made this version."""
    checksum: int | None = None
    """Of these weights; None: not computed for this version."""


class Added(Entry, frozen=True):
    """A contribution was added to the next step. Its body, packed as it came, follows the entry."""

    peer: str
    incarnation: str
    header: Gradient | Trajectory
    weight: float
    lag: int
    against: bool = False
    """It was not added, as it points against the others (`exchange.robust`); but later ones are judged by it, too."""


class Stepped(Entry, frozen=True):
    """What was added since the step before made a new version."""

    version: int
    scale: float
    frames: int
    left_out: list[int] = []
    """Of what was added, by its number from 0: what turned out to be unusable and is not in the step."""
    checksum: int | None = None
    """Of the new weights (`Weights.checksum`); None: not computed for this version."""


class Saved(Entry, frozen=True):
    """A checkpoint was made of the newest version; before it is written, all entries up to here are on the disk."""

    version: int


AnyEntry = Began | Added | Stepped | Saved
