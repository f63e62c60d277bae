"""Protects the running statistics from a single actor: the moments that it counted are judged by the others'.

Each element of an actor's means is clipped to within SIGMAS deviations of the other actors' means; its variance
likewise. The statistics counted so far would be no bound: an actor that always stays just within it would widen it
without end. The others' figures are used as they arrived, not clipped. So a region of the state space that is new to
all is accepted soon, and a liar only widens what the others may report. An actor that is alone is believed.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from common.rl.moments import Moments
from learner.bounded_dict import BoundedDict

SIGMAS = 4.0
"""Allowed distance from another actor's mean, in standard deviations of that actor's numbers."""
REMEMBERED = 50
"""Contributions of an actor over which its own mean and deviation are taken."""
SOURCES = 64
"""Most actors that are remembered: those that sent last."""
_Doubles = NDArray[np.float64]


@dataclass
class _Known:
    means: _Doubles
    variances: _Doubles
    count: int = 1


class MomentsGuard:
    def __init__(self) -> None:
        self._known: BoundedDict[str, _Known] = BoundedDict(SOURCES)

    def believed(self, source: str, seen: Moments) -> Moments:
        """Return the moments that the actor `source` has `seen`, clipped to what the others' figures allow."""
        if not seen.count:
            return seen
        others = [known for name, known in self._known.items() if name != source]
        self._note(source, seen)
        if not others:
            return seen
        means = np.stack([one.means for one in others])
        variances = np.stack([one.variances for one in others])
        reach = SIGMAS * np.sqrt(variances)
        low, high = (means - reach).min(axis=0), (means + reach).max(axis=0)
        most = np.maximum(SIGMAS**2 * variances.max(axis=0), (high - low) ** 2 / 4)
        return Moments(seen.count, np.clip(seen.means, low, high), np.minimum(seen.squares, most * seen.count))

    def _note(self, source: str, seen: Moments) -> None:
        known = self._known.get(source)
        if known is None:
            known = _Known(seen.means.copy(), seen.variances.copy())
        else:
            known.count = min(known.count + 1, REMEMBERED)
            weight = 1 / known.count
            apart = seen.means - known.means
            known.variances += weight * (seen.variances + (1 - weight) * apart**2 - known.variances)
            known.means += weight * apart
        self._known[source] = known
