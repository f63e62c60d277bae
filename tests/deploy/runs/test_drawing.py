from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure
from PIL import Image

from common.errors import ConfigurationError, UnavailableError
from deploy.runs.drawing import draw
from deploy.runs.groups import Group, groups
from deploy.runs.table import read_table
from tests.helpers.run_folders import run_folder


@pytest.fixture
def found(tmp_path: Path) -> list[Group]:
    """Two seeds, another setting, and another environment."""
    run_folder(tmp_path / "runs" / "a", "seed=1", returns=(1, 2, 3))
    run_folder(tmp_path / "runs" / "b", "seed=2", returns=(1, 4, 5, 6))
    run_folder(tmp_path / "runs" / "c", "network.lstm=8", returns=(2, 2))
    run_folder(tmp_path / "runs" / "d", "environment.id=Acrobot-v1", returns=(-7,))
    return groups(read_table([tmp_path / "runs"]).runs)


def test_a_panel_for_each_environment_and_a_name_for_each_group(
    found: list[Group], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures: list[Any] = []
    genuine = Figure.savefig

    def savefig(self: Figure, *arguments: Any, **keywords: Any) -> None:
        figures.append(self)
        genuine(self, *arguments, **keywords)

    monkeypatch.setattr(Figure, "savefig", savefig)
    draw(found, tmp_path / "x.png", "frames", "training")
    with Image.open(tmp_path / "x.png") as picture:
        assert picture.size[0] > 1000
    (figure,) = figures
    acrobot, cartpole = figure.axes
    assert (acrobot.get_title(), cartpole.get_title()) == ("Acrobot-v1", "CartPole-v1")
    names = [text.get_text() for text in cartpole.get_legend().get_texts()]
    assert names == ["a3c, network.lstm=0 (2 seeds)", "a3c, network.lstm=8"]
    assert len(cartpole.collections) == 1, "one interval"
    assert [line.get_xdata()[-1] for line in cartpole.lines if len(line.get_xdata())] == [3000, 4000, 3000, 2000]
    low, high = cartpole.get_ylim()
    assert 0 < low < 1 and 6 < high < 7


def test_a_panel_that_is_left_over_is_not_drawn(
    found: list[Group], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_folder(tmp_path / "runs" / "e", "environment.id=Pendulum-v1", returns=(-9,))
    three = groups(read_table([tmp_path / "runs"]).runs)
    figures: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda self, file, **_: figures.append(self))
    draw(three, tmp_path / "x.png", "frames", "training")
    assert [panel.get_visible() for panel in figures[0].axes] == [True, True, True, False]


@pytest.mark.parametrize("kind", ["svg", "pdf"])
def test_other_kinds_over_time(found: list[Group], kind: str, tmp_path: Path) -> None:
    draw(found, tmp_path / f"x.{kind}", "seconds", "training")
    assert (tmp_path / f"x.{kind}").stat().st_size > 1000


def test_what_cannot_be_drawn(found: list[Group], tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"a picture is a \.png, \.svg or \.pdf file"):
        draw(found, tmp_path / "x.gif", "frames", "training")
    with pytest.raises(ConfigurationError, match="there is no folder"):
        draw(found, tmp_path / "y" / "x.png", "frames", "training")
    with pytest.raises(ConfigurationError, match="no run has an evaluation; draw --score training"):
        draw(found, tmp_path / "x.png", "frames", "evaluation")
    with pytest.raises(ConfigurationError, match="no run has a finished episode"):
        draw([], tmp_path / "x.png", "frames", "training")
    (tmp_path / "x.png").mkdir()
    with pytest.raises(UnavailableError, match=r"x\.png: cannot be written"):
        draw(found, tmp_path / "x.png", "frames", "training")
