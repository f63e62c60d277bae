from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from learner.record import chart, curve
from learner.record.chart import Panel
from learner.record.curve import SIZE, draw

ROWS: list[dict[str, Any]] = [
    {"frames": 0, "seconds": 0.0, "mean_return": None, "episode_length": None, "actors": 1},
    {"frames": 1000, "seconds": 90.0, "mean_return": 20.0, "episode_length": 20.0, "actors": 2},
    {"frames": 2000, "seconds": 180.0, "mean_return": 30.0, "episode_length": 31.0, "actors": 3},
]


@pytest.fixture
def panels(monkeypatch: pytest.MonkeyPatch) -> list[Panel]:
    """Those that were drawn: of returns over frames and over time, of lengths, of actors."""
    drawn: list[Panel] = []
    genuine = chart.png

    def png(title: str, columns: list[list[Panel]], *others: Any) -> bytes:
        assert title == "CartPole-v1, seed 0"
        drawn.extend(panel for row in zip(*columns, strict=True) for panel in row)
        return genuine(title, columns, *others)

    monkeypatch.setattr(curve.chart, "png", png)
    return drawn


def drawn(tmp_path: Path, table: list[dict[str, Any]], goal: float | None = None) -> Path:
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table))
    draw(tmp_path / "metrics.jsonl", tmp_path / "curve.png", "CartPole-v1, seed 0", goal)
    return tmp_path / "curve.png"


def points(panel: Panel) -> list[tuple[float, float]]:
    return list(zip(panel.x.tolist(), panel.y.tolist(), strict=True))


def test_curves(tmp_path: Path, panels: list[Panel]) -> None:
    with Image.open(drawn(tmp_path, ROWS, goal=25.0)) as picture:
        assert (picture.format, picture.size) == ("PNG", SIZE)
    by_frames, by_time, lengths, actors = panels
    assert points(by_frames) == [(1000, 20), (2000, 30)]
    assert points(by_time) == [(1.5, 20), (3, 30)]
    assert points(lengths) == [(1000, 20), (2000, 31)]
    assert points(actors) == [(0, 1), (1.5, 2), (3, 3)]
    assert [panel.y_label for panel in panels] == ["mean return", "", "episode length", "actors"]
    assert [panel.x_label for panel in panels] == ["", "", "frames", "time (minutes)"]
    assert [panel.goal for panel in panels] == [25.0, 25.0, None, None]


@pytest.mark.parametrize("table", [[], ROWS[:1]])
def test_before_the_first_episode(tmp_path: Path, panels: list[Panel], table: list[dict[str, Any]]) -> None:
    drawn(tmp_path, table, goal=25.0)
    for panel in panels[:2]:
        assert points(panel) == []
        assert panel.note == "no episodes finished"


def test_no_file(tmp_path: Path) -> None:
    draw(tmp_path / "none", tmp_path / "curve.png", "title", None)
    assert (tmp_path / "curve.png").exists()


@pytest.mark.parametrize(
    ("seconds", "unit", "shown"), [(119.0, "seconds", 119), (120.0, "minutes", 2), (7200.0, "hours", 2)]
)
def test_unit_of_time(tmp_path: Path, panels: list[Panel], seconds: float, unit: str, shown: float) -> None:
    drawn(tmp_path, [{**ROWS[1], "seconds": 0.0}, {**ROWS[2], "seconds": seconds}])
    assert panels[3].x_label == f"time ({unit})"
    np.testing.assert_allclose(panels[3].x, [0, shown])
    assert panels[3].x_end >= shown


def test_only_the_picture_is_left(tmp_path: Path) -> None:
    drawn(tmp_path, ROWS)
    drawn(tmp_path, ROWS)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["curve.png", "metrics.jsonl"]
