"""Coverage-guided fuzzing of every target, two at a time: `make fuzz MINUTES=n`.

    python -P tests/fuzz/run.py [--minutes 20] [--keep] [TARGET ...]

A crash, an input that takes longer than a second, and 200 MiB more than at the start are findings: the input is written
to fuzz-found/, and belongs into tests/fuzz/corpus/ with the cure. --keep adds the inputs that reach new code to it.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
from tests.fuzz import corpus  # noqa: E402
from tests.fuzz.targets import TARGETS  # noqa: E402

JOBS = 2
STUCK_SECONDS = 120.0
MORE_MIB = 200
FOUND = ROOT / "fuzz-found"
_UNITS = re.compile(r"stat::number_of_executed_units:\s+(\d+)")
_PEAK = re.compile(r"stat::peak_rss_mb:\s+(\d+)")


@dataclass(frozen=True)
class Result:
    target: str
    inputs: int
    peak_mib: int
    failed: str
    """The end of what it said; empty: nothing was found."""


def fuzz(target: str, seconds: float, keep: bool) -> Result:
    with tempfile.TemporaryDirectory(prefix="a3cd-fuzz-") as scratch:
        inputs = Path(scratch) / "corpus"
        inputs.mkdir()
        for number, one in enumerate(corpus.seeds(target)):
            (inputs / f"kept-{number}").write_bytes(one)
        base = psutil.Process().memory_info().rss >> 20
        options = [
            *(f"-max_total_time={seconds:.0f}", "-timeout=600", f"-rss_limit_mb={base + MORE_MIB}"),
            *("-print_final_stats=1", "-max_len=4096", f"-artifact_prefix={FOUND / target}-", "-verbosity=0"),
        ]
        ended = _one(target, *options, str(inputs), limit=seconds + STUCK_SECONDS)
        found = {name: int(match[1]) for name, match in _figures(ended.stderr).items()}
        failed = _said(ended) if ended.returncode else ""
        if keep and not failed:
            corpus.write(target, (file.read_bytes() for file in inputs.iterdir()))
        return Result(target, found.get("inputs", 0), found.get("peak", 0), failed)


def _one(target: str, *options: str, limit: float) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-P", str(Path(__file__).with_name("one.py")), target, *options]
    try:
        return subprocess.run(
            words, capture_output=True, text=True, errors="replace", check=False, cwd=ROOT, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, 1, "", f"one input was not done after {limit:.0f} s")


def _said(ended: subprocess.CompletedProcess[str]) -> str:
    lines = [line for line in ended.stderr.splitlines() if not line.startswith(("INFO: Instrumenting", "WARNING:"))]
    return "\n".join([f"exit code {ended.returncode}", *(line[:300] for line in lines[-40:])])


def _figures(text: str) -> dict[str, re.Match[str]]:
    found = {"inputs": _UNITS.search(text), "peak": _PEAK.search(text)}
    return {name: match for name, match in found.items() if match}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--keep", action="store_true", help="add inputs that reach new code to tests/fuzz/corpus")
    parser.add_argument("targets", nargs="*", choices=[*TARGETS, []], metavar="TARGET")
    given = parser.parse_args()
    targets = given.targets or list(TARGETS)
    FOUND.mkdir(exist_ok=True)
    seconds = max(1.0, 60.0 * given.minutes * JOBS / len(targets))
    with ThreadPoolExecutor(JOBS) as pool:
        results = list(pool.map(partial(fuzz, seconds=seconds, keep=given.keep), targets))
    for result in results:
        print(f"{result.target:24} {result.inputs:>12,} inputs  {result.peak_mib:>5} MiB{result.failed and '  FOUND'}")
    print(f"{sum(result.inputs for result in results):,} inputs")
    for result in results:
        if result.failed:
            print(f"\n{result.target}:\n{result.failed}")
    sys.exit(any(result.failed for result in results))


if __name__ == "__main__":
    main()
