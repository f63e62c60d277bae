"""Simulations of random faults, one for each seed: python -m tests.faults.run [--seeds N] [--first SEED] [--jobs N]

Prints the seeds that fail, and why. `--seeds 1 --first SEED` replays one of them exactly.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from rich.progress import track

from tests.faults.scenario import Scenario


def failure(seed: int) -> str:
    """Run the simulation of this seed; return why it fails, or an empty text."""
    try:
        Scenario(seed).run()
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {error} ({where.filename}:{where.lineno})"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    failed = 0
    with ProcessPoolExecutor(arguments.jobs, mp_context=get_context("spawn")) as pool:
        found = pool.map(failure, seeds, chunksize=max(1, min(20, len(seeds) // 8)))
        for seed, why in zip(seeds, track(found, "seeds", total=len(seeds)), strict=True):
            if why:
                failed += 1
                print(f"seed {seed}: {why}")
    print(f"{len(seeds)} seeds, {failed} failed")
    return min(1, failed)


if __name__ == "__main__":
    sys.exit(main())
