"""Lists the benchmarks, or runs one: `python -m benchmarks [NAME [OPTIONS] [--json FILE]]`."""

from __future__ import annotations

import ast
import runpy
import sys
from pathlib import Path

from benchmarks import tables

TAKES = {
    "codecs": "20 s",
    "environments": "1 min",
    "networks": "1 min",
    "units": "40 s",
    "optimizers": "20 s",
    "goal": "2 min",
    "results": "13 min",
    "start": "2 min",
    "algorithms": "40 min",
    "frames": "6 min",
    "peers": "80 min",
    "flappy": "4 min",
    "throughput": "2 min",
    "one_actor": "2 min",
    "lstm": "24 min",
    "growth": "3 min",
    "scaling": "20 min",
    "size": "2 min",
    "relay": "25 min",
    "cures": "1 min",
    "memory": "12 min",
    "simulated": "17 min",
    "factors": "60 min",
    "experiment": "6 h",
    "speedup": "40 min",
    "recording": "20 s",
    "saving": "1 min",
    "week_of_metrics": "2 min",
    "join_storm": "30 s",
    "swarm": "20 s",
    "gpu": "5 min",
    "strangers": "4 min",
    "poison": "30 min",
    "faults": "25 min",
    "soak": "60 min",
    "compare": "1 s",
}
"""Duration of each benchmark on two otherwise idle cores."""


def main() -> None:
    if len(sys.argv) == 1:
        print("python -m benchmarks NAME [--json FILE]; each prints a table\n")
        for name, takes in TAKES.items():
            print(f"  {name:15}{takes:>7}  {purpose(path(name))}")
        return
    name = sys.argv[1]
    if name not in TAKES:
        sys.exit(f"no benchmark is called {name!r}; there are {', '.join(TAKES)}")
    sys.argv[:] = [str(path(name)), *sys.argv[2:]]
    file = _json_file(sys.argv)
    if file is not None:
        tables.keep(file, name, sys.argv[1:])
    runpy.run_path(str(path(name)), run_name="__main__")


def _json_file(arguments: list[str]) -> Path | None:
    """Remove `--json FILE`, which every benchmark accepts, from the arguments, and return the file."""
    if "--json" not in arguments:
        return None
    index = arguments.index("--json")
    if index + 1 == len(arguments):
        sys.exit("--json needs a file")
    file = Path(arguments[index + 1])
    del arguments[index : index + 2]
    return file


def path(name: str) -> Path:
    return Path(__file__).with_name(f"{name}.py")


def purpose(script: Path) -> str:
    """Return the first line of the script's docstring, without the command line and the final stop."""
    first = (ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or "").splitlines()[0]
    return first.split(": `")[0].rstrip(".:")


if __name__ == "__main__":
    main()
