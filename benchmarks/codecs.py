"""Every codec on dense and sparse gradients of a small and a large model: bytes, error, time; or frames to a goal.

    python -m benchmarks codecs [--learn 0,1,2]

Times are medians on one thread. "sparse" is like the gradient of a dense layer behind ReLUs after a few updates: whole
rows and columns are zero, about 85 % of all elements. "error" is the L2 norm of what coding loses, relative to the
gradient's; "owed" is the norm of the residual of error feedback after the same gradient was sent 60 times, relative to
the sum of the 60. The second table is for weights as the learner broadcasts them: whole, or as the delta to a keyframe
from which they have moved by 1 % of their norm.
With --learn: instead, CartPole-v1 is trained to a mean return of 475 with each kind of codec; medians over these seeds.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.linalg import norm

from benchmarks import tables
from benchmarks.runs import Training
from benchmarks.tables import Cell
from common.settings.codec_names import CODECS, NAMES
from common.wire.bodies.broadcast import FORMATS
from common.wire.bodies.delta import DeltaFormat
from common.wire.bodies.weights import WeightsFormat
from common.wire.codecs.base import Floats
from common.wire.codecs.feedback import ErrorFeedback
from common.wire.codecs.registry import make

SIZES = {"17.5k": (128, 137), "678k": (256, 2650)}
"""Shape of the layer (outputs, inputs) per model."""
REPEATS = 60
GOAL, LIMIT_SECONDS = 475.0, 120.0
KINDS = ("sparse", "dense")
COLUMNS = ("model", "gradient", "codec", "bytes", "ratio", "encode us", "feedback us", "decode us", "error", "owed")
WEIGHT_COLUMNS = ("model", "format", "bytes", "ratio", "pack us", "unpack us", "error")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--learn", default="", help="seeds")
    if seeds := parser.parse_args().learn:
        learn([int(seed) for seed in seeds.split(",")])
        return
    torch.set_num_threads(1)
    tables.machine()
    gradients = {
        (model, kind): make_gradient(shape, sparse=kind == "sparse") for model, shape in SIZES.items() for kind in KINDS
    }
    rows: list[tuple[Cell, ...]] = [
        (*which, name, *measure(name, gradient)) for which, gradient in gradients.items() for name in NAMES
    ]
    tables.show("Gradients", COLUMNS, rows)
    forms = (*FORMATS, "delta")
    rows = [(model, name, *measure_weights(name, shape)) for model, shape in SIZES.items() for name in forms]
    tables.show("Weights", WEIGHT_COLUMNS, rows)


def learn(seeds: list[int]) -> None:
    tables.machine()
    rows: list[tuple[Cell, ...]] = []
    for kind in CODECS:
        runs = [summary(kind, seed) for seed in seeds]
        reached = [run for run in runs if run["reached"]]
        figures = (tables.median(run[name] for run in reached) for name in ("frames", "seconds"))
        sent = tables.median(run["gradient_bytes"] / run["gradients"] for run in runs)
        rows.append((kind, f"{len(reached)}/{len(runs)}", *figures, sent))
    columns = ("codec", "reached", "frames", "seconds", "bytes a gradient")
    tables.show(f"CartPole-v1 to {GOAL:g}, 2 actors, seeds {','.join(map(str, seeds))}", columns, rows)


def summary(kind: str, seed: int) -> dict[str, Any]:
    """Return the summary of one run with a codec and zstd as its entropy coder."""
    arguments = ("--actors", "2", "--seed", str(seed), "--until-return", str(GOAL), "--seconds", str(LIMIT_SECONDS))
    settings = {"exchange.kind": "gradients", "exchange.codec": kind, "exchange.entropy_coder": "zstd"}
    with Training("CartPole-v1", *arguments, label=f"{kind}, seed {seed}", settings=settings) as training:
        return training.finish(LIMIT_SECONDS + 60.0).summary


def make_gradient(shape: tuple[int, int], *, sparse: bool) -> Floats:
    """Return a flat gradient whose rows differ in magnitude."""
    generator = torch.Generator().manual_seed(0)
    outputs, inputs = shape
    delta = torch.randn(outputs, 1, generator=generator).exp() * 1e-3
    gradient = torch.randn(outputs, inputs, generator=generator) * delta
    if sparse:
        gradient *= torch.rand(outputs, 1, generator=generator) < 0.4
        gradient *= torch.rand(1, inputs, generator=generator) < 0.375
    flat: Floats = (gradient.flatten() + 0.0).numpy()
    return flat  # without -0 (hence + 0.0): it compresses badly, and real gradients have next to none


def measure(name: str, gradient: Floats) -> tuple[int, float, float, float, float, float, float]:
    """Return the values of COLUMNS from "bytes" on."""
    packed = make(name, gradient.size)
    feedback = ErrorFeedback(packed)
    body = packed.encode(gradient)
    out = np.empty_like(gradient)
    packed.decode(body, out)
    feedback_time = microseconds(lambda: feedback.encode(gradient))
    return (
        len(body),
        4 * gradient.size / len(body),
        microseconds(lambda: packed.encode(gradient)),
        feedback_time,
        microseconds(lambda: packed.decode(body, out)),
        float(norm(out - gradient) / norm(gradient)),
        float(norm(feedback.residual) / (REPEATS * norm(gradient))),
    )


def measure_weights(name: str, shape: tuple[int, int]) -> tuple[int, float, float, float, float]:
    """Return bytes, ratio, microseconds to pack and to unpack, and error."""
    generator = torch.Generator().manual_seed(1)
    weights: Floats = (torch.randn(shape, generator=generator).flatten() / shape[1] ** 0.5).numpy()
    moved = make_gradient(shape, sparse=False)
    moved *= 0.01 * norm(weights) / norm(moved)
    keyframe, nothing, out, size = weights - moved, np.zeros(0, np.float32), np.empty_like(weights), weights.size
    if name == "delta":
        delta = DeltaFormat(size)
        pack: Callable[[], bytes] = functools.partial(delta.pack, 7, moved, nothing)
        unpack: Callable[[], None] = functools.partial(delta.unpack, pack(), 7, keyframe, [out], nothing)
    else:
        whole = WeightsFormat(name, size)
        pack = functools.partial(whole.pack, [weights], nothing)
        unpack = functools.partial(whole.unpack, pack(), [out], nothing)
    unpack()
    error = float(norm(out - weights) / norm(weights))
    return len(pack()), 4 * size / len(pack()), microseconds(pack), microseconds(unpack), error


def microseconds(call: Callable[[], object], repeats: int = REPEATS) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e6 * statistics.median(times)


if __name__ == "__main__":
    main()
