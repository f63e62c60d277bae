"""Error feedback: what packing loses of one vector is added to the next."""

from __future__ import annotations

import math

import torch

from common.wire.codecs.packed import PackedCodec


class ErrorFeedback:
    """Encodes with `packed` and carries the residual over.

    With e_0 = 0, c_t = encode(v_t + e_t) and e_{t+1} = e_t + v_t - decode(c_t): the decoded sum is the sum of the
    vectors less the last residual. See 1-bit SGD (Seide et al., Interspeech 2014) and arXiv 1901.09847.

    A body that the learner drops takes its own vector with it, the part that packing lost included, while what it
    carried of earlier ones is still owed. So each body's loss, v_t - decode(c_t), is kept by its number until it is
    answered, and either joins the residual or is taken back. Meanwhile it counts as delivered.
    """

    def __init__(self, packed: PackedCodec) -> None:
        self.packed = packed
        self._settled = torch.zeros(packed.size)
        """The residual of all that has been answered."""
        self._open: dict[int, torch.Tensor] = {}
        """The loss of each body that has not."""
        self._carried = torch.empty(packed.size)
        self._spare: list[torch.Tensor] = []

    @property
    def residual(self) -> torch.Tensor:
        """What the next vector gets added; a copy."""
        return sum(self._open.values(), self._settled.clone())

    def encode(self, vector: torch.Tensor, number: int | None = None) -> bytes:
        """The body for `vector` plus what was lost before; shape (size,), contiguous float32 on the CPU.

        With a `number`, not used for another body yet unanswered, the loss is open until `answered`; without, it
        counts as delivered for good. Nothing is carried over from a body that is not finite: nobody takes that.

        Raises:
            ValueError: `vector` is not as described.
        """
        codec = self.packed.codec
        vector = vector.detach()
        carried = torch.add(vector, self._settled, out=self._carried)
        for other in self._open.values():
            carried.add_(other)
        raw = codec.encode(carried)
        body = self.packed.stage.compress(raw)
        loss = self._spare.pop() if self._spare else torch.empty(self.packed.size)
        codec.decode(raw, loss)
        torch.sub(vector, loss, out=loss)
        if not math.isfinite(loss.sum().item()) and not loss.isfinite().all():
            loss.zero_()
        if number is None:
            self._settle(loss)
        else:
            self._open[number] = loss
        return body

    def answered(self, number: int, *, dropped: bool) -> None:
        """What became of the body of that number; a number that is not open is passed over."""
        loss = self._open.pop(number, None)
        if loss is None:
            return
        if dropped:
            self._spare.append(loss)
        else:
            self._settle(loss)

    def reset(self) -> None:
        """Forgets the residual and what is open, as after a new epoch."""
        self._settled.zero_()
        self._spare += self._open.values()
        self._open.clear()

    def _settle(self, loss: torch.Tensor) -> None:
        self._settled.add_(loss)
        self._spare.append(loss)
