"""deploy/monitoring/: the alerts fire when they should, and all that is asked for is there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from common.run.prometheus import FAMILIES

ROOT = Path(__file__).parents[1]
MONITORING = ROOT / "deploy" / "monitoring"
ALERTS = MONITORING / "alerts.yml"
NAMES = {family.name + "_total" * family.counter for family in FAMILIES}
DASHBOARD: dict[str, Any] = json.loads((MONITORING / "grafana.json").read_text(encoding="utf-8"))
VARIABLES = {"$run": "a", "$__rate_interval": "1m"}


@pytest.fixture
def promtool() -> str:
    found = shutil.which("promtool")
    return found or pytest.skip("needs promtool (Debian's package prometheus)")


def checked(*words: object) -> None:
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def questions() -> Iterator[str]:
    """The dashboard's, with its variables put in."""
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            text = target["expr"]
            for variable, value in VARIABLES.items():
                text = text.replace(variable, value)
            yield text


def test_the_alerts_fire_when_they_should(promtool: str, tmp_path: Path) -> None:
    checked(promtool, "check", "config", MONITORING / "prometheus.yml")
    text = (ROOT / "tests" / "alerts_test.yml").read_text(encoding="utf-8")
    (tmp_path / "test.yml").write_text(text.replace("[ALERTS]", json.dumps([str(ALERTS)])), encoding="utf-8")
    checked(promtool, "test", "rules", tmp_path / "test.yml")


def test_the_dashboards_questions_can_be_asked(promtool: str, tmp_path: Path) -> None:
    rules = [{"record": f"panel_{index}", "expr": text} for index, text in enumerate(questions())]
    (tmp_path / "rules.yml").write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}), encoding="utf-8")
    checked(promtool, "check", "rules", tmp_path / "rules.yml")


@pytest.mark.parametrize("text", [ALERTS.read_text(encoding="utf-8"), " ".join(questions())], ids=["alerts", "panels"])
def test_each_metric_that_is_asked_for_is_there(text: str) -> None:
    asked = set(re.findall(r"\ba3cd_\w+", text))
    assert len(asked) > 10
    assert asked - NAMES == set()


def test_the_dashboard_has_each_panel_in_a_place_of_its_own() -> None:
    taken = [
        (column, row)
        for panel in DASHBOARD["panels"]
        for place in [panel["gridPos"]]
        for column in range(place["x"], place["x"] + place["w"])
        for row in range(place["y"], place["y"] + place["h"])
    ]
    assert len(taken) == len(set(taken)) and max(taken)[0] < 24
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_the_page_names_every_metric_and_every_alert() -> None:
    page = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\ba3cd_\w+", page)) == NAMES
    assert set(re.findall(r"\bA3cd\w+", page)) == set(re.findall(r"alert: (\w+)", ALERTS.read_text(encoding="utf-8")))
