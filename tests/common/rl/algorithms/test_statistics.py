from __future__ import annotations

from pathlib import Path

from common.rl.algorithms.statistics import MAX_FIGURE, Statistics, known

PROTOCOL = Path(__file__).parents[4] / "docs" / "protocol.md"


def test_the_protocol_tells_every_name() -> None:
    assert f"| Figures of the loss: {', '.join(Statistics._fields)}. |" in PROTOCOL.read_text(encoding="utf-8")


def test_figures_of_other_names_and_sizes_do_not_count() -> None:
    given = {"kl": 1.0, "ratio": MAX_FIGURE, "entropy": -2 * MAX_FIGURE, "value_loss": float("nan"), "other": 1.0}
    assert known(given) == {"kl": 1.0, "ratio": MAX_FIGURE}
    assert known({"policy_loss": float("-inf")}) == {}
