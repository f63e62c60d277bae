"""How long the gradient of an honest actor can be. A longer one is damaged or a lie, and a single one can spoil a run.

Actors clip the gradient of each rollout to algorithm.max_grad_norm (`common.rl.gradient`), so the sum over n rollouts
has an L2 norm of at most n times that. With error feedback, a residual is added, which the actor keeps below
RESIDUAL_ROLLOUTS times max_grad_norm. Packing makes the total longer by at most the factor GROWTH. A relay's sum is
over gradients that were packed before, each perhaps with a residual; together with the relay's own residual it is
packed once more.
"""

import math
from dataclasses import dataclass
from typing import Literal

from common.errors import CodecError
from common.settings.codec_names import feeds_back
from common.wire.codecs.feedback import RESIDUAL_ROLLOUTS

GROWTH = 1.07
"""Largest ratio of the decoded norm to the original: int8, whose elements are off by up to half a step of max|x| / 127
in blocks of 256, adds sqrt(256) / 254 = 0.063; bf16 adds 2^-8, and the others at most rounding."""
UNDERFLOW = 2.0**-24
"""What fp16 adds to the norm by rounding up numbers below its smallest, over the root of the number of elements."""
LARGEST_NORM = 1e16
"""Largest norm of any gradient: optimizers take squares, and the square of a sum of many must still fit float32."""


@dataclass(frozen=True)
class GradientBound:
    """The bound that follows from a run's settings."""

    max_grad_norm: float = 0.0
    """algorithm.max_grad_norm; 0: gradients are not clipped, and only LARGEST_NORM bounds them."""
    error_feedback: bool | Literal["auto"] = "auto"

    def largest(self, codec: str, count: int, size: int, *, summed: bool = False) -> float:
        """Return the largest norm of a decoded gradient of `count` rollouts, `size` elements; `summed`: a relay's."""
        if not self.max_grad_norm:
            return LARGEST_NORM
        residual = RESIDUAL_ROLLOUTS * self.max_grad_norm if feeds_back(self.error_feedback, codec) else 0.0
        rounded = UNDERFLOW * math.sqrt(size)
        longest = count * self.max_grad_norm
        if summed:
            longest = GROWTH * (longest + count * residual) + count * rounded
        return min(LARGEST_NORM, GROWTH * (longest + residual) + rounded)

    def check(self, norm: float, codec: str, count: int, size: int, *, summed: bool = False) -> None:
        """Raise CodecError for a norm that is not finite, or that no honest gradient has."""
        if not math.isfinite(norm):
            raise CodecError("not finite (NaN or infinity)")
        if norm <= (largest := self.largest(codec, count, size, summed=summed)):
            return
        why = ""
        if self.max_grad_norm:
            why = f", since each of its {count} rollouts is clipped to algorithm.max_grad_norm = {self.max_grad_norm:g}"
        raise CodecError(f"of norm {norm:.4g}, at most {largest:.4g} is possible{why}")
