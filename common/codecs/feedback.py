"""Error feedback: what packing loses of one vector is added to the next."""

from __future__ import annotations

import math

import torch

from common.codecs.packed import PackedCodec


class ErrorFeedback:
    """Encodes with `packed` and carries the residual over.

    With e_0 = 0, c_t = encode(v_t + e_t) and e_{t+1} = v_t + e_t - decode(c_t): the decoded sum is the sum of the
    vectors less the last residual, which stays within the codec's bound. See 1-bit SGD (Seide et al., Interspeech
    2014) and arXiv 1901.09847.
    """

    def __init__(self, packed: PackedCodec) -> None:
        self.packed = packed
        self._residual = torch.zeros(packed.size)
        self._decoded = torch.empty(packed.size)

    def encode(self, vector: torch.Tensor) -> bytes:
        """The body for `vector` plus what was lost before; shape (size,), contiguous float32 on the CPU.

        Elements whose loss is not finite (their block held an infinity or NaN) are carried over as 0: one bad
        gradient does not spoil those after it.

        Raises:
            ValueError: `vector` is not as described.
        """
        codec = self.packed.codec
        residual = self._residual
        raw = codec.encode(residual.add_(vector.detach()))
        body = self.packed.stage.compress(raw)
        codec.decode(raw, self._decoded)
        residual.sub_(self._decoded)
        if not math.isfinite(residual.sum().item()):
            residual.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)
        return body

    def reset(self) -> None:
        """Forgets the residual, as after a new epoch."""
        self._residual.zero_()
