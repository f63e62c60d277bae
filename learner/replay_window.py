"""The anti-replay window: each contribution of an actor counts once, however often it is sent (RFC 4303, 3.4.3)."""

from learner.bounded_dict import BoundedDict

REMEMBERED = 10_000
"""Incarnations whose sequence numbers are remembered after they are gone."""
SEQUENCE_WINDOW = 1024
"""Sequence numbers at least this far below an incarnation's highest count as seen; credit leaves far fewer open."""
Incarnation = tuple[str, str]
"""Name of an actor, and the identity of its process among all of that name."""
_MASK = (1 << SEQUENCE_WINDOW) - 1


class ReplayWindow:
    """The sequence numbers seen from each incarnation.

    Numbers may arrive out of order: a broken connection may lose the first of two contributions under way, which is
    sent again later. So the highest number is kept, with a bit mask of those below it.
    """

    def __init__(self) -> None:
        self._seen: BoundedDict[Incarnation, tuple[int, int]] = BoundedDict(REMEMBERED)

    def __contains__(self, incarnation: Incarnation) -> bool:
        return incarnation in self._seen

    def know(self, incarnation: Incarnation) -> None:
        """Remember an incarnation that has sent no number yet."""
        self._seen.setdefault(incarnation, (0, 1))

    def is_duplicate(self, incarnation: Incarnation, sequence: int) -> bool:
        """Whether this number has been seen; from now on it counts as seen."""
        highest, mask = self._seen.get(incarnation, (0, 1))
        if sequence > highest:
            shift = min(sequence - highest, SEQUENCE_WINDOW)
            highest, mask = sequence, (mask << shift | 1) & _MASK
        else:
            bit = highest - sequence
            if bit >= SEQUENCE_WINDOW or mask >> bit & 1:
                return True
            mask |= 1 << bit
        self._seen[incarnation] = (highest, mask)
        return False
