from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from learner.record.curve import draw

ROWS: list[dict[str, Any]] = [
    {"frames": 0, "seconds": 0.0, "mean_return": None, "episode_length": None, "actors": 1},
    {"frames": 1000, "seconds": 90.0, "mean_return": 20.0, "episode_length": 20.0, "actors": 2},
    {"frames": 2000, "seconds": 180.0, "mean_return": 30.0, "episode_length": 31.0, "actors": 3},
]


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that are drawn."""
    drawn: list[Figure] = []
    genuine = Figure.suptitle

    def suptitle(self: Figure, *arguments: Any, **keywords: Any) -> Any:
        drawn.append(self)
        return genuine(self, *arguments, **keywords)

    monkeypatch.setattr(Figure, "suptitle", suptitle)
    return drawn


def drawn(tmp_path: Path, table: list[dict[str, Any]], goal: float | None = None) -> Path:
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table))
    draw(tmp_path / "metrics.jsonl", tmp_path / "curve.png", "CartPole-v1, seed 0", goal)
    return tmp_path / "curve.png"


def test_curves(tmp_path: Path, figures: list[Figure]) -> None:
    with Image.open(drawn(tmp_path, ROWS, goal=25.0)) as picture:
        assert picture.format == "PNG"
        assert min(picture.size) > 400
    by_frames, by_time, lengths, actors = figures[0].axes
    np.testing.assert_array_equal(by_frames.lines[0].get_xydata(), [(1000, 20), (2000, 30)])
    np.testing.assert_array_equal(by_time.lines[0].get_xydata(), [(1.5, 20), (3, 30)])
    np.testing.assert_array_equal(lengths.lines[0].get_xydata(), [(1000, 20), (2000, 31)])
    np.testing.assert_array_equal(actors.lines[0].get_xydata(), [(0, 1), (1.5, 2), (3, 3)])
    assert [panel.get_ylabel() for panel in figures[0].axes] == ["mean return", "", "episode length", "actors"]
    assert [panel.get_xlabel() for panel in (lengths, actors)] == ["frames (agent steps)", "time (minutes)"]
    for panel in (by_frames, by_time):
        assert panel.lines[1].get_ydata() == pytest.approx([25, 25])
        assert [text.get_text() for text in panel.texts] == ["goal 25"]


def test_evaluations_are_drawn_where_the_weights_were_with_their_interval(
    tmp_path: Path, figures: list[Figure]
) -> None:
    """Rows repeat the last one, and a second one of the same weights completes it."""
    first = {"evaluation_frames": 500, "evaluation_seconds": 60.0, "evaluation_return": 18.0}
    first |= {"evaluation_low": 16.0, "evaluation_high": 20.0}
    second = first | {"evaluation_return": 17.0, "evaluation_low": 16.5, "evaluation_high": 17.5}
    third = {name: value * 3 for name, value in second.items()}
    table = [ROWS[0], ROWS[1] | first, ROWS[1] | second, ROWS[2] | second, ROWS[2] | third]
    drawn(tmp_path, table)
    by_frames, by_time = figures[0].axes[:2]
    np.testing.assert_array_equal(by_frames.lines[1].get_xydata(), [(500, 17), (1500, 51)])
    np.testing.assert_array_equal(by_time.lines[1].get_xydata(), [(1, 17), (3, 51)])
    (band,) = by_frames.collections
    extent = band.get_paths()[0].get_extents()
    assert (extent.ymin, extent.ymax) == (16.5, 52.5)
    for panel in (by_frames, by_time):
        legend = panel.get_legend()
        assert legend is not None
        assert [text.get_text() for text in legend.get_texts()] == ["training", "evaluation, 95 %"]


def test_without_evaluations_there_is_no_legend(tmp_path: Path, figures: list[Figure]) -> None:
    drawn(tmp_path, ROWS)
    assert all(panel.get_legend() is None for panel in figures[0].axes)


@pytest.mark.parametrize("table", [[], ROWS[:1]])
def test_before_the_first_episode(tmp_path: Path, figures: list[Figure], table: list[dict[str, Any]]) -> None:
    drawn(tmp_path, table, goal=25.0)
    for panel in figures[0].axes[:2]:
        assert not panel.lines
        assert [text.get_text() for text in panel.texts] == ["no episodes finished"]


def test_no_file(tmp_path: Path) -> None:
    draw(tmp_path / "none", tmp_path / "curve.png", "title", None)
    assert (tmp_path / "curve.png").exists()


def test_one_row_is_a_point(tmp_path: Path, figures: list[Figure]) -> None:
    drawn(tmp_path, ROWS[1:2])
    assert [panel.lines[0].get_marker() for panel in figures[0].axes] == ["o"] * 4


@pytest.mark.parametrize(
    ("seconds", "unit", "shown"), [(119.0, "seconds", 119), (120.0, "minutes", 2), (7200.0, "hours", 2)]
)
def test_unit_of_time(tmp_path: Path, figures: list[Figure], seconds: float, unit: str, shown: float) -> None:
    drawn(tmp_path, [{**ROWS[1], "seconds": 0.0}, {**ROWS[2], "seconds": seconds}])
    actors = figures[0].axes[3]
    assert actors.get_xlabel() == f"time ({unit})"
    assert actors.lines[0].get_xdata() == pytest.approx([0, shown])


def test_only_the_picture_is_left(tmp_path: Path) -> None:
    drawn(tmp_path, ROWS)
    drawn(tmp_path, ROWS)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["curve.png", "metrics.jsonl"]
