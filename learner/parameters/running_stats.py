"""Running statistics of observations and rewards: moments from all actors, merged, and the extras made of them."""

from __future__ import annotations

from torch import Tensor

from common.rl.moments import Moments, Plain
from common.rl.networks.normalization import Normalization


class RunningStats:
    """Kept from the first step of the run on, over every epoch."""

    def __init__(self, normalization: Normalization, extras: Tensor, saved: Moments | None = None) -> None:
        """`extras` are the model's, written in place; `saved` are the moments of a checkpoint."""
        self._normalization = normalization
        self._extras = extras
        self._moments = Moments.empty(normalization.counted) if saved is None else saved
        self.refresh()

    def merge(self, more: Moments) -> None:
        """Adds the moments of one contribution; the extras change with the next `refresh`."""
        self._moments = self._moments.merged(more)

    def refresh(self) -> None:
        self._extras.copy_(self._normalization.extras(self._moments))

    def saved(self) -> Plain | None:
        """For a checkpoint; None while nothing is counted."""
        return self._moments.plain() if self._moments.count else None
