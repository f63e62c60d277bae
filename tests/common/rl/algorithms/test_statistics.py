from __future__ import annotations

from pathlib import Path

from common.rl.algorithms.statistics import Statistics

PROTOCOL = Path(__file__).parents[4] / "docs" / "protocol.md"


def test_the_protocol_tells_every_name() -> None:
    assert f"| Of the loss: {', '.join(Statistics._fields)}. |" in PROTOCOL.read_text(encoding="utf-8")
