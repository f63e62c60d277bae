"""Error feedback: the quantisation error of one vector is added to the next."""

import math

import numpy as np

from common.wire.codecs.arithmetic import square_sum
from common.wire.codecs.base import Floats
from common.wire.codecs.registry import PackedCodec

RESIDUAL_ROLLOUTS = 32
"""An actor's residual is at most as long as the clipped gradients of this many rollouts (learner.parameters)."""


class ErrorFeedback:
    """Encodes vectors with `packed`, after adding the residual of earlier vectors.

    With e_0 = 0, c_t = encode(v_t + e_t) and e_{t+1} = e_t + v_t - decode(c_t), the decoded sum is the sum of the
    vectors less the last residual. See 1-bit SGD (Seide et al., Interspeech 2014) and arXiv 1901.09847.

    When the learner discards gradient t, its quantisation error is discarded too; only the residual that it carried
    from earlier gradients is still owed. So each error, v_t - decode(c_t), is kept under its number until the gradient
    is answered: applied, it joins the residual; stale or refused, it is dropped. Until then it counts as applied.

    A codec that contracts by q < 1 keeps the residual below q / (1 - q) times the longest vector: about 200 times for
    top-k of one in a hundred, which no receiver could tell from damage. A residual longer than `longest` is shortened:
    the excess is forgotten.
    """

    def __init__(self, packed: PackedCodec, longest: float = math.inf) -> None:
        """longest: bound of the residual's L2 norm."""
        self.packed = packed
        self._longest = longest
        self._settled = np.zeros(packed.size, np.float32)
        """The residual of the answered bodies."""
        self._open: dict[int, Floats] = {}
        """The error of each body that is not answered yet."""
        self._carried = np.empty(packed.size, np.float32)
        self._spare: list[Floats] = []

    @property
    def residual(self) -> Floats:
        """e_t, which is added to the next vector; a copy."""
        return sum(self._open.values(), self._settled.copy())

    @np.errstate(all="ignore")
    def encode(self, vector: Floats, number: int | None = None) -> bytes:
        """Return the body for `vector` plus the residual.

        vector: (size,), contiguous float32; raises ValueError for another array. With a `number`, the body's error is
        kept until `answered`; without, it joins the residual at once. A body that is not finite leaves no error, since
        the learner refuses it.
        """
        codec = self.packed.codec
        carried = self._bounded()
        carried += vector
        raw = codec.encode(carried)
        body = self.packed.stage.compress(raw)
        error = self._spare.pop() if self._spare else np.empty(self.packed.size, np.float32)
        codec.decode(raw, error)
        np.subtract(vector, error, out=error)
        if not math.isfinite(square_sum(error)) and not np.isfinite(error).all():
            error.fill(0)
        if number is None:
            self._settle(error)
        else:
            self._open[number] = error
        return body

    def answered(self, number: int, *, dropped: bool) -> None:
        """Note that the learner has answered the body of this number; an unknown number is ignored."""
        error = self._open.pop(number, None)
        if error is None:
            return
        if dropped:
            self._spare.append(error)
        else:
            self._settle(error)

    def reset(self) -> None:
        """Forget the residual and all open errors, as after a new epoch."""
        self._settled.fill(0)
        self._spare += self._open.values()
        self._open.clear()

    def _bounded(self) -> Floats:
        """Return the residual, in memory of its own; shorten it to `longest` if it is longer."""
        residual = self._carried
        np.copyto(residual, self._settled)
        for other in self._open.values():
            residual += other
        if math.isinf(self._longest):
            return residual
        norm = math.sqrt(square_sum(residual))
        if norm > self._longest:
            kept = np.float32(self._longest / norm)
            self._settled -= (1 - kept) * residual
            residual *= kept
        return residual

    def _settle(self, error: Floats) -> None:
        self._settled += error
        self._spare.append(error)
