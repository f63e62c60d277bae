"""Cost of recording gradients in the learner: time per gradient with and without the record, and bytes.

    python -m benchmarks recording [--steps 2000]

Times are processor times of one thread, in which the core takes the gradient and an optimizer step, and the record is
written to a temporary folder.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks import tables
from benchmarks.tables import Cell
from common.settings.sections import Settings
from common.settings.toml import override
from common.wire.codecs.registry import make as make_codec
from common.wire.messages import PROTOCOL, Gradient, Hello
from learner.build import build
from learner.effects import Effect, Record
from learner.record.gradient_log import GradientLog
from learner.record.run_lock import create

CASES = (
    ("dense 128", "[128]", "none"),
    ("dense 512, 512", "[512, 512]", "int8"),
    ("dense 2048, 2048", "[2048, 2048]", "int8"),
)
"""Name, network.hidden and exchange.codec of each case."""
COLUMNS = ("parameters", "codec", "body B", "without us", "with us", "record B a gradient")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2000, help="of the smallest network")
    steps = parser.parse_args().steps
    tables.machine()
    rows: list[tuple[Cell, ...]] = []
    for number, (what, hidden, codec) in enumerate(CASES):
        fewer = max(1, steps // 8**number)
        without, _, parameters, body = measure(hidden, codec, fewer, record=False)
        recorded, size, _, _ = measure(hidden, codec, fewer, record=True)
        rows.append((what, parameters, codec, body, without * 1e6, recorded * 1e6, size))
    tables.show("One gradient, one step", ("network", *COLUMNS), rows)


def measure(hidden: str, codec: str, steps: int, *, record: bool) -> tuple[float, float, int, int]:
    """Return seconds and bytes on disk per gradient, the number of parameters, and the bytes of a body."""
    given = (f"network.hidden={hidden}", f"exchange.codec={codec}", "exchange.entropy_coder=none")
    settings = override(Settings(), (*given, f"record.gradients={str(record).lower()}"))
    with TemporaryDirectory() as place:
        locked = create(Path(place) / "run", settings)
        core = build(locked, None, 5556, 0.0)
        log = GradientLog(locked.folder.gradients, keep_mib=0)
        spec = core.run.spec

        def do(effects: list[Effect]) -> None:
            for effect in effects:
                if isinstance(effect, Record):
                    log.append(effect.entry, effect.body or b"")

        do(core.begin())
        hello = Hello(protocol=PROTOCOL, role="actor", name="a", incarnation="1", host="x", pid=1, codecs=[codec])
        core.handle(0.0, b"a", hello, None)
        gradient = np.random.default_rng(0).standard_normal(spec.parameters, np.float32)
        gradient *= np.float32(0.4 / np.linalg.norm(gradient))
        body = memoryview(make_codec(codec, spec.parameters).encode(gradient))
        begun = time.thread_time()
        for number in range(steps):
            header = Gradient(
                run=spec.run, epoch=1, sequence=number + 1, version=number, model=spec.model, codec=codec,
                steps=320, emulator_frames=320,
            )  # fmt: skip
            do(core.handle(0.0, b"a", header, body))
        seconds = time.thread_time() - begun
        assert core.run.stats.counters.gradients == steps
        size = sum(path.stat().st_size for path in locked.folder.gradients.glob("*"))
        log.close()
        locked.close()
    return seconds / steps, size / steps, spec.parameters, body.nbytes


if __name__ == "__main__":
    main()
