from __future__ import annotations

from pathlib import Path

from deploy.runs.groups import groups
from deploy.runs.table import read_table
from deploy.runs.tidy import CURVE, curve_rows, run_rows
from tests.helpers.run_folders import run_folder


def test_a_row_for_each_run_with_the_settings_that_differ(tmp_path: Path) -> None:
    run_folder(tmp_path / "a", "network.hidden=[8]", summary={})
    run_folder(tmp_path / "b", "network.hidden=[64,64]", "seed=1")
    first, second = run_rows(groups(read_table([tmp_path]).runs))
    assert list(first) == list(second)
    assert list(first)[-1] == "network.hidden"
    assert {first["network.hidden"], second["network.hidden"]} == {"[8]", "[64, 64]"}
    assert {first["group"], second["group"]} == {"a3c, network.hidden=[8]", "a3c, network.hidden=[64, 64]"}


def test_a_row_for_each_of_the_metrics(tmp_path: Path) -> None:
    run_folder(tmp_path / "a", "seed=4")
    first, second = curve_rows(groups(read_table([tmp_path]).runs))
    assert list(first) == ["run", "group", "env", "algorithm", "seed", *CURVE]
    assert (first["frames"], second["frames"], second["mean_return"], second["lag_mean"]) == (1000, 2000, 20.0, None)
    assert (first["run"], first["seed"]) == (str(tmp_path / "a"), 4)
    (last,) = list(curve_rows(groups(read_table([tmp_path]).runs), ["episodes"]))[1:]
    assert last["episodes"] == 1
    assert "frames" not in last
