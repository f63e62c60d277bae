"""Protects the running statistics from a few actors: the moments that one counted are judged by the others'.

Each element of an actor's means is clipped to within SIGMAS deviations of the other actors' means, but for the
outermost of these; its variance likewise. The statistics counted so far would be no bound: an actor that always stays
just within it would widen it without end. The others' figures are used as they arrived, not clipped. So a region of
the state space that is new to all is accepted soon, and a few liars only widen what the others may report. An actor
that is alone is believed.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from common.rl.moments import Moments
from learner.bounded_dict import BoundedDict

SIGMAS = 4.0
"""Allowed distance from another actor's mean, in standard deviations of that actor's numbers."""
OUTERMOST = 4
"""One in so many of the other actors is left out at either end: all the actors of a broken host say the same."""
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
        left_out = len(others) // OUTERMOST
        low = np.partition(means - reach, left_out, axis=0)[left_out]
        high = _nth_largest(means + reach, left_out)
        most = np.maximum(SIGMAS**2 * _nth_largest(variances, left_out), (high - low) ** 2 / 4)
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


def _nth_largest(rows: _Doubles, number: int) -> _Doubles:
    """Return for each column of `rows` (N, size) the largest number but for `number` larger ones."""
    last = len(rows) - 1 - number
    found: _Doubles = np.partition(rows, last, axis=0)[last]
    return found
