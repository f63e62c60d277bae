"""Run folders as a learner leaves them, made without training."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from common.settings.toml import dump
from tests.helpers.run import settings_of


def run_folder(
    path: Path,
    *assignments: str,
    returns: Iterable[float] = (10.0, 20.0),
    summary: Mapping[str, Any] | None = None,
    epoch: int = 1,
) -> Path:
    """Writes a run folder with a row of metrics per second, 1,000 frames apart.

    `summary`: fields to add to its summary; None: it has none.
    """
    path.mkdir(parents=True)
    record = {"run": "0123456789abcdef", "created": "2026-01-01T00:00:00+00:00", "epoch": epoch, "a3cd": "0.2.0"}
    (path / "run.json").write_text(json.dumps(record))
    (path / "settings.toml").write_text(dump(settings_of(*assignments)))
    rows = [
        {"frames": 1000 * (number + 1), "seconds": number + 1.0, "episodes": number, "mean_return": value}
        for number, value in enumerate(returns)
    ]
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if summary is not None:
        whole = {**(rows[-1] if rows else {}), "epoch": 1, "state": "reached", "best_return": 30.0, **summary}
        (path / "summary.json").write_text(json.dumps(whole))
    return path
