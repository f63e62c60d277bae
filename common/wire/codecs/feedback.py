"""Error feedback: the quantisation error of one vector is added to the next."""

import math

import torch

from common.wire.codecs.registry import PackedCodec


class ErrorFeedback:
    """Encodes with `packed` and adds the residual of earlier vectors.

    With e_0 = 0, c_t = encode(v_t + e_t) and e_{t+1} = e_t + v_t - decode(c_t), the decoded sum is the sum of the
    vectors less the last residual. See 1-bit SGD (Seide et al., Interspeech 2014) and arXiv 1901.09847.

    When the learner discards gradient t, its quantisation error is discarded too; only the residual that it carried
    from earlier gradients is still owed. So each error, v_t - decode(c_t), is kept under its number until the gradient
    is answered: applied, it joins the residual; stale or refused, it is dropped. Until then it counts as applied.
    """

    def __init__(self, packed: PackedCodec) -> None:
        self.packed = packed
        self._settled = torch.zeros(packed.size)
        """The residual of the answered bodies."""
        self._open: dict[int, torch.Tensor] = {}
        """The error of each body that is not answered yet."""
        self._carried = torch.empty(packed.size)
        self._spare: list[torch.Tensor] = []

    @property
    def residual(self) -> torch.Tensor:
        """e_t, which is added to the next vector; a copy."""
        return sum(self._open.values(), self._settled.clone())

    def encode(self, vector: torch.Tensor, number: int | None = None) -> bytes:
        """The body for `vector` plus the residual; shape (size,), contiguous float32 on the CPU (else ValueError).

        With a `number`, its error is kept until `answered`; without, it joins the residual at once. A body that is not
        finite leaves no error, since the learner refuses it.
        """
        codec = self.packed.codec
        vector = vector.detach()
        carried = torch.add(vector, self._settled, out=self._carried)
        for other in self._open.values():
            carried.add_(other)
        raw = codec.encode(carried)
        body = self.packed.stage.compress(raw)
        error = self._spare.pop() if self._spare else torch.empty(self.packed.size)
        codec.decode(raw, error)
        torch.sub(vector, error, out=error)
        if not math.isfinite(error.sum().item()) and not error.isfinite().all():
            error.zero_()
        if number is None:
            self._settle(error)
        else:
            self._open[number] = error
        return body

    def answered(self, number: int, *, dropped: bool) -> None:
        """The learner has answered the body of that number; an unknown number is ignored."""
        error = self._open.pop(number, None)
        if error is None:
            return
        if dropped:
            self._spare.append(error)
        else:
            self._settle(error)

    def reset(self) -> None:
        """Forget the residual and all open errors, as after a new epoch."""
        self._settled.zero_()
        self._spare += self._open.values()
        self._open.clear()

    def _settle(self, error: torch.Tensor) -> None:
        self._settled.add_(error)
        self._spare.append(error)
