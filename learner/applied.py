"""The record of what was applied: its entries tell, in order, which contributions made a learner's weights.

    began -> added -> added -> stepped -> added -> stepped -> saved -> ...

Together with a checkpoint the entries determine the weights, bit for bit on the same machine; `learner.replay` checks
that they do.
"""

from typing import Any

import msgspec

from common.wire.messages import Gradient, Trajectory


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="entry", tag=str.lower):
    """Base class. In the file, the field `entry` holds the class name in lower case."""


class Began(Entry, frozen=True):
    """The epoch that the entries from here on belong to; every file of the record begins with one."""

    a3cd: str
    run: str
    epoch: int
    settings: dict[str, Any]
    """The run settings with every `auto` resolved."""
    model: str
    parameters: int
    version: int
    """Version of the weights to which the following contributions are applied."""
    frames: int
    """Frames of the run at the step that made this version."""
    checksum: int | None = None
    """Checksum of these weights; None: not computed for this version."""


class Added(Entry, frozen=True):
    """A contribution was added to the next step. Its body follows the entry, packed as it arrived."""

    peer: str
    incarnation: str
    header: Gradient | Trajectory
    weight: float
    lag: int
    against: bool = False
    """Whether it was left out because it points against the others (`exchange.robust`). It is recorded all the same,
    since later contributions are compared with it, too."""


class Stepped(Entry, frozen=True):
    """An optimizer step with all contributions added since the previous step made a new version."""

    version: int
    scale: float
    frames: int
    left_out: list[int] = []
    """Contributions that were added but proved unusable, so are not in the step: their numbers, from 0, in the order of
    adding."""
    checksum: int | None = None
    """Checksum of the new weights (`Weights.checksum`); None: not computed for this version."""


class Saved(Entry, frozen=True):
    """A checkpoint of the newest version was begun; all entries up to this one are on the disk before it is written."""

    version: int


AnyEntry = Began | Added | Stepped | Saved
