from __future__ import annotations

import shutil
import subprocess
import sys
from typing import Any

import pytest

from common.errors import ConfigurationError
from common.run.prometheus import FAMILIES, PEERS_NAMED, page, registry_of
from common.run.status import CheckpointStatus, HostStatus, KeyStatus, QuarantineStatus, RunStatus
from tests.helpers.status import evaluation_status, fleet_status, peer_status, relay_status, run_status

pytest.importorskip("prometheus_client", reason="needs the extra prometheus")
OPENMETRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
FULL = run_status(
    versions={"a3cd": "0.2.0"},
    exchange="gradients",
    time=1.7e9,
    evaluations=3,
    evaluation=evaluation_status(mean=91.5),
    best_evaluation=evaluation_status(mean=95.5),
    checkpoint=CheckpointStatus(version=20_900, age=12.5, error="no space left on device"),
    quarantined=[QuarantineStatus(name="a", place="b", why="c", seconds_left=100.0)],
    actors=[peer_status(frames_per_second=1.0 * pace, name=f"lab-{pace}") for pace in (3, 1, 2)],
    relays=[relay_status()],
    launchers=[fleet_status(restarts={"lab-0": 1, "lab-1": 4})],
    disk_free=5_000_000_000,
    hosts=[HostStatus(name="lab", actors=3, processor=0.75, memory=3_000, memory_total=16_000)],
    keys=[KeyStatus(name="lab", roles=["actor"], peers=3, seen=0.5), KeyStatus(name="x", roles=[], peers=0, seen=None)],
)


def text(status: RunStatus | None, accept: str = "", **options: Any) -> str:
    return page(registry_of(lambda: [] if status is None else [status], **options), accept)[1].decode()


def samples(status: RunStatus | None) -> list[tuple[str, dict[str, str], float]]:
    """As a scraper reads them."""
    from prometheus_client.parser import text_string_to_metric_families

    return [tuple(sample)[:3] for family in text_string_to_metric_families(text(status)) for sample in family.samples]


def value(status: RunStatus, name: str, **labels: str) -> float | None:
    found = [one for called, having, one in samples(status) if called == name and labels.items() <= having.items()]
    assert len(found) < 2
    return found[0] if found else None


@pytest.mark.parametrize(
    ("name", "labels", "expected"),
    [
        ("a3cd_run_info", {"env": "FlappyBird-v0", "exchange": "gradients", "version": "0.2.0", "epoch": "1"}, 1.0),
        ("a3cd_run_state", {"state": "running"}, 1.0),
        ("a3cd_run_state", {"state": "failed"}, 0.0),
        ("a3cd_status_timestamp_seconds", {}, 1.7e9),
        ("a3cd_frames_total", {"epoch": "1", "run": "9649236e67ffe1b7"}, 1_204_320),
        ("a3cd_gradients_total", {"outcome": "applied"}, 60_216),
        ("a3cd_gradients_total", {"outcome": "stale"}, 12),
        ("a3cd_gradient_lag_versions", {}, 1.23),
        ("a3cd_learner_busy_ratio", {}, 0.34),
        ("a3cd_mean_return", {}, 87.3),
        ("a3cd_loss", {"figure": "entropy"}, 0.612),
        ("a3cd_evaluation_mean_return", {"weights": "last"}, 91.5),
        ("a3cd_evaluation_mean_return", {"weights": "best"}, 95.5),
        ("a3cd_sent_bytes_total", {"kind": "weights"}, 4_230_000_000),
        ("a3cd_checkpoint_age_seconds", {}, 12.5),
        ("a3cd_checkpoint_failing", {}, 1.0),
        ("a3cd_quarantined", {}, 1),
        ("a3cd_actors_frames_per_second", {"rank": "least"}, 1.0),
        ("a3cd_actors_frames_per_second", {"rank": "median"}, 3.0),
        ("a3cd_actors_frames_per_second", {"rank": "most"}, 812.5),
        ("a3cd_actor_frames_total", {"actor": "lab-3", "host": "lab"}, 30_100),
        ("a3cd_actor_gradients_dropped_total", {"actor": "lab-3"}, 2),
        ("a3cd_relays", {}, 1),
        ("a3cd_relay_actors", {"relay": "hub", "host": "hub"}, 3),
        ("a3cd_relay_sums_applied_total", {"relay": "hub"}, 900),
        ("a3cd_relay_sums_dropped_total", {"relay": "hub"}, 2),
        ("a3cd_relay_gradients_dropped_total", {"relay": "hub"}, 17),
        ("a3cd_site_actor_frames_per_second", {"actor": "there-0", "relay": "hub"}, 812.5),
        ("a3cd_launcher_ordered", {"launcher": "gpu-box"}, 7),
        ("a3cd_launcher_gave_up", {}, 0.0),
        ("a3cd_launcher_failures_total", {"launcher": "gpu-box", "epoch": "1"}, 2),
        ("a3cd_launcher_restarts_most", {"launcher": "gpu-box"}, 4),
        ("a3cd_disk_free_bytes", {}, 5e9),
        ("a3cd_host_processor_ratio", {"host": "lab"}, 0.75),
        ("a3cd_host_memory_bytes", {"host": "lab"}, 3_000),
        ("a3cd_host_memory_total_bytes", {"host": "lab"}, 16_000),
        ("a3cd_key_silent_seconds", {"key": "lab"}, 0.5),
        ("a3cd_key_silent_seconds", {"key": "x"}, None),
    ],
)
def test_a_figure_of_the_status_is_a_metric(name: str, labels: dict[str, str], expected: float | None) -> None:
    assert value(FULL, name, **labels) == expected


def test_every_family_has_a_sample_of_a_full_status() -> None:
    names = {name for name, _, _ in samples(FULL)}
    assert {family.name + "_total" * family.counter for family in FAMILIES} == names


def test_what_is_not_known_yet_has_no_sample() -> None:
    status = run_status(mean_return=None, goal=None, losses={})
    assert value(status, "a3cd_mean_return") is None
    assert value(status, "a3cd_checkpoint_age_seconds") is None
    assert value(status, "a3cd_evaluation_mean_return") is None
    assert text(None) == ""


def test_a_resumed_runs_counters_are_series_of_their_own() -> None:
    """It goes back to its checkpoint: as the same series that would be a reset, and all its frames an increase."""
    counters = {name for name, labels, _ in samples(FULL) if labels.get("epoch") == "1"} - {"a3cd_run_info"}
    assert counters == {name for name, _, _ in samples(FULL) if name.endswith("_total")}


def test_a_thousand_actors_make_some_hundred_series() -> None:
    crowd = run_status(
        actors=[peer_status(name=f"actor-{index}") for index in range(1000)],
        launchers=[fleet_status(name=f"launcher-{index}") for index in range(1000)],
    )
    named = [labels["actor"] for name, labels, _ in samples(crowd) if name == "a3cd_actor_lag_versions"]
    assert named == [f"actor-{index}" for index in range(PEERS_NAMED)]
    assert len(samples(crowd)) < 1300


def test_two_of_a_name_on_one_host_are_one_series() -> None:
    twins = run_status(actors=[peer_status(lag=1.0), peer_status(lag=2.0), peer_status(lag=3.0, host="other")])
    assert value(twins, "a3cd_actor_lag_versions", host="lab") == 1.0
    assert value(twins, "a3cd_actor_lag_versions", host="other") == 3.0


def test_a_peers_name_cannot_make_lines_of_its_own() -> None:
    name = 'x"} 1\na3cd_frames_total{run="\\'
    status = run_status(actors=[peer_status(name=name)])
    assert value(status, "a3cd_actor_lag_versions", actor=name) == 1.1
    assert len(samples(status)) == len(samples(run_status(actors=[peer_status()])))


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("", "text/plain; version=0.0.4"),
        (OPENMETRICS, "application/openmetrics-text; version=1.0.0"),
        ("application/openmetrics-text;version=x", "text/plain; version=0.0.4"),
        (";=;,\0", "text/plain; version=0.0.4"),
    ],
)
def test_the_format_is_the_one_asked_for(accept: str, content_type: str) -> None:
    got, body = page(registry_of(lambda: [FULL]), accept)
    assert got.startswith(content_type)
    assert b"a3cd_frames_total" in body


def test_the_process_is_measured_where_it_is_asked_for() -> None:
    assert "process_resident_memory_bytes" in text(FULL, process=True)
    assert "process_" not in text(FULL)


def test_names_are_as_prometheus_wants_them() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("needs promtool (Debian's package prometheus)")
    check = subprocess.run([promtool, "check", "metrics"], input=text(FULL), capture_output=True, text=True)
    assert (check.returncode, check.stdout, check.stderr) == (0, "", "")


def test_without_prometheus_client_the_cure_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'a3cd\[prometheus\]'"):
        registry_of(list)


def test_several_runs_are_told_apart_within_each_family() -> None:
    from prometheus_client.parser import text_string_to_metric_families

    told = page(registry_of(lambda: [FULL, run_status(run="other", epoch=2, mean_return=1.0)]))[1].decode()
    found = {family.name: family.samples for family in text_string_to_metric_families(told)}
    assert {sample.labels["run"]: sample.value for sample in found["a3cd_mean_return"]} == {
        FULL.run: 87.3,
        "other": 1.0,
    }
    assert [sample.labels["epoch"] for sample in found["a3cd_frames"]] == ["1", "2"]
    assert told.count("# TYPE a3cd_mean_return ") == 1
