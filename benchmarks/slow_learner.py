"""`a3cd` with a slow optimizer, for experiments on overload: python benchmarks/slow_learner.py SECONDS learner ...

Each optimizer step of such a learner takes at least SECONDS.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from deploy.cli.command import main
from learner.parameters.optimizers import FlatOptimizer


def slow_down(seconds: float) -> None:
    """Make each step of every optimizer last at least `seconds`."""
    step = FlatOptimizer.step

    def slow_step(self: FlatOptimizer, *arguments: Any, **options: Any) -> None:
        begun = time.monotonic()
        step(self, *arguments, **options)
        time.sleep(max(0.0, begun + seconds - time.monotonic()))

    FlatOptimizer.step = slow_step  # type: ignore[method-assign]


if __name__ == "__main__":
    slow_down(float(sys.argv.pop(1)))
    main()
