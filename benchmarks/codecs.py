"""Every codec on dense and on sparse gradients of a small and a large model: `python benchmarks/codecs.py`.

Times are medians on one thread. "sparse" is the gradient of a dense layer behind rectifiers after a few updates:
whole rows and columns are zero, about 85 % of all elements. "error" is the L2 norm of the loss over that of the
gradient; "owed" is what error feedback still owes after 60 times the same gradient, over the sum of these.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

from common.codecs.feedback import ErrorFeedback
from common.codecs.registry import NAMES, make

SIZES = {"17.5k": (128, 137), "678k": (256, 2650)}
"""Shape of the layer (outputs, inputs) per model."""
REPEATS = 60
COLUMNS = ("model", "gradient", "codec", "bytes", "ratio", "encode us", "feedback us", "decode us", "error", "owed")


def main() -> None:
    torch.set_num_threads(1)
    print(("{:<6} {:<8} {:<12}" + " {:>11}" * 7).format(*COLUMNS))
    for model, shape in SIZES.items():
        for kind in ("sparse", "dense"):
            gradient = make_gradient(shape, sparse=kind == "sparse")
            for name in NAMES:
                row = measure(name, gradient)
                print(
                    f"{model:<6} {kind:<8} {name:<12}"
                    + " {:>11} {:>11.1f} {:>11.0f} {:>11.0f} {:>11.0f} {:>11.1e} {:>11.1e}".format(*row)
                )


def make_gradient(shape: tuple[int, int], *, sparse: bool) -> torch.Tensor:
    """A flat gradient with a spread of magnitudes over rows."""
    generator = torch.Generator().manual_seed(0)
    outputs, inputs = shape
    delta = torch.randn(outputs, 1, generator=generator).exp() * 1e-3
    gradient = torch.randn(outputs, inputs, generator=generator) * delta
    if sparse:
        gradient *= torch.rand(outputs, 1, generator=generator) < 0.4
        gradient *= torch.rand(1, inputs, generator=generator) < 0.375
    return gradient.flatten() + 0.0  # no -0: real gradients have next to none, and they compress badly


def measure(name: str, gradient: torch.Tensor) -> tuple[int, float, float, float, float, float, float]:
    packed = make(name, gradient.numel())
    feedback = ErrorFeedback(packed)
    body = packed.encode(gradient)
    out = torch.empty_like(gradient)
    packed.decode(body, out)
    feedback_time = microseconds(lambda: feedback.encode(gradient))
    return (
        len(body),
        4 * gradient.numel() / len(body),
        microseconds(lambda: packed.encode(gradient)),
        feedback_time,
        microseconds(lambda: packed.decode(body, out)),
        float((out - gradient).norm() / gradient.norm()),
        float(feedback.residual.norm() / (REPEATS * gradient.norm())),
    )


def microseconds(call: Callable[[], object], repeats: int = REPEATS) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e6 * statistics.median(times)


if __name__ == "__main__":
    main()
