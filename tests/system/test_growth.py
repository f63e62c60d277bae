"""A training that begins with one actor and gets more as its agent learns."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from common.errors import EXIT_SIGINT
from common.run.folder import RunFolder
from tests.helpers.daemons import Daemons
from tests.helpers.waiting import until

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(180)]

RELATIVE = ("scaling.thresholds_relative=[1.2,2,3]", "scaling.additions=[1,2,3]", "scaling.episodes_between=200")


def test_actors_come_as_episodes_get_longer_than_the_first_ones(daemons: Daemons, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    changed = [word for setting in (*RELATIVE, "limits.until_return=1e9") for word in ("--set", setting)]
    train = daemons.start("train", "CartPole-v1", "--actors", "1..3", "--run-dir", folder.path, *changed)
    train.wait_for("scaling: mean episode ", " -> ")

    def grown() -> list[dict[str, object]] | None:
        rows = [json.loads(line) for line in folder.metrics_file.read_text().splitlines() if line.endswith("}")]
        return rows if rows and rows[-1]["actors"] > 1 else None

    rows = until(grown, "a second actor")
    train.signal(signal.SIGINT)
    assert train.wait() == EXIT_SIGINT
    wanted = [row["actors_wanted"] for row in rows]
    assert wanted[0] == 1 and wanted == sorted(wanted, key=int)
    said = [line for line in train.said.splitlines() if "learner" in line and "scaling: mean episode" in line]
    assert "x the first ones'" in said[0] and "1 -> " in said[0]
    newest = folder.newest()
    assert newest is not None
    counters = newest.read().state["counters"]
    assert counters["first_length"] > 5 and counters["last_addition"] >= 200
    assert counters["wanted"] >= wanted[-1]
