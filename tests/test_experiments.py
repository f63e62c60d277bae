"""The simulated experiments: what each row of a table is, and what is made of their outcomes."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import experiment, factors, simulations, speedup
from benchmarks.simulations import Case, Outcome, Point, best_end, best_rate, file_of
from common.settings.sections import Settings
from common.settings.toml import replace_at
from simulation.cluster import Cluster
from simulation.recorders import MemoryRecorder


def test_ours_is_what_the_defaults_are() -> None:
    assert replace_at(Settings(), factors.OURS) == Settings()


def test_each_row_adds_one_rule_to_an_exchange_without_limits_or_leaves_one_out_of_ours() -> None:
    def changed(name: str, other: str) -> set[str]:
        row, base = factors.EXCHANGES[name], factors.EXCHANGES[other]
        return {key for key in base if row[key] != base[key]}

    assert changed("without limits", "ours") == set(factors.OURS)
    assert changed("+ refresh", "without limits") == {"algorithm.refresh"}
    assert changed("- refresh", "ours") == {"algorithm.refresh", "algorithm.correction"}
    for name, keys in factors.ADDED.items():
        assert changed(f"+ {name}", "without limits") == set(keys)
    for name, without in factors.WITHOUT.items():
        assert changed(f"- {name}", "ours") == set(without)


@pytest.mark.parametrize("name", factors.EXCHANGES)
def test_every_row_is_a_run_that_can_be(name: str) -> None:
    one = factors.case("CartPole-v1", "rmsprop", name, 40, 1e-3, seed=3, simulation=factors.world(10, 0.0))
    assert (one.settings.seed, one.settings.scaling.maximum) == (3, 40)
    assert Cluster(one.settings, one.simulation, MemoryRecorder()).settings.optimizer.learning_rate == 1e-3


def test_a_world_is_as_near_and_its_learner_as_fast_as_one_says() -> None:
    near, far = factors.world(10, 0.0), factors.world(4, 0.15)
    assert (near.costs.optimizer_step, far.costs.optimizer_step) == (0.016, 0.04)
    assert all(host.local for host in near.hosts)
    assert all(not host.local and host.link.delay == 0.15 for host in far.hosts)
    assert [host.speed for host in far.hosts] == [host.speed for host in near.hosts]


def test_a_row_has_the_learning_rate_that_needs_the_fewest_frames() -> None:
    rows = {
        "ours, 4, 0.001": [outcome("", [0.0, 0.0, 9.0])],
        "ours, 4, 0.01": [outcome("", [0.0, 9.0], seconds=3.0)],
        "ours, 4, 0.1": [outcome("", [0.0, 0.0])],
        "ours, 40, 0.1": [outcome("", [9.0])],
    }
    assert best_rate(rows, "ours, 4", score=9.0) == (0.04, 2.0, 6.0, 0.01)
    assert best_rate(rows, "- credit, 4", score=9.0) == (None, None, None, None)


def test_a_row_that_does_not_reach_the_score_has_the_return_and_the_lag_of_its_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = {
        "ours, 4, 0.001": [outcome("", [0.0, 300.0])],
        "ours, 40, 0.001": [outcome("", [9.0, 5.0], lag=7.0), outcome("", [1.0, 3.0], lag=9.0), outcome("", [300.0])],
        "ours, 40, 0.01": [outcome("", [9.0, 4.0], lag=6.0)],
    }
    assert best_end(rows, "ours, 4", score=300.0) == (None, None, None)
    assert best_end(rows, "ours, 40", score=300.0) == (5.0, 7.0, 0.001)
    factors.show("CartPole-v1", "CartPole-v1", rows, [4, 40])
    *_, title, columns, line = capsys.readouterr().out.splitlines()
    assert title == "CartPole-v1, not at 300 after 150,000 frames"
    assert columns.split("  ")[-1].strip() == "40 actors: rate"
    assert line.split() == ["ours", "-", "-", "-", "5.0", "7.0", "0.001"]


@pytest.mark.parametrize("exchange", experiment.EXCHANGES)
def test_a_fleet_of_the_experiment_is_fixed_or_grows(exchange: str) -> None:
    fixed = experiment.settings_of(exchange, "10", "relative", 1, {"limits.episodes": 5})
    grows = experiment.settings_of(exchange, "6..12", "seconds", 1, {})
    assert (fixed.scaling.policy, fixed.scaling.minimum, fixed.scaling.maximum) == ("fixed", 10, 10)
    assert (grows.scaling.policy, grows.scaling.minimum, grows.scaling.maximum) == ("episode-duration", 6, 12)
    assert fixed.algorithm.whole_episodes and fixed.limits.episodes == 5


def test_the_experiments_outcomes_are_kept() -> None:
    """Without them the command in docs/experiment.md simulates for six hours instead of printing its table at once."""
    cases = experiment.cases(experiment.parser().parse_args([]))
    files = {file_of(case, experiment.OUTCOMES) for case in cases}
    cure = (
        "their cases have other keys now. If a setting or a cost was added, name it in benchmarks.simulations.ADDED, "
        "with the value that leaves a run as it was. If one was renamed or removed, rename the files. If a run is now "
        "another one, remove them and simulate again: python -m benchmarks experiment"
    )
    assert len(files) == 70
    assert set(experiment.OUTCOMES.iterdir()) == files, cure


def test_an_added_setting_makes_another_case_only_where_it_changes_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def name(graphs: bool) -> str:
        return file_of(Case("", replace_at(Settings(), {"optimizer.cuda_graphs": graphs})), Path()).name

    monkeypatch.setattr(simulations, "ADDED", {"settings.optimizer.cuda_graphs": False})
    before = name(False), name(True)
    monkeypatch.setattr(simulations, "ADDED", {})
    assert name(False) != before[0] != before[1] == name(True)


def outcome(name: str, returns: list[float], seconds: float = 1.0, lag: float = 0.0) -> Outcome:
    points = [
        Point(number * seconds, 0.0, 20 * number, number, value, 1.0, 1, lag, 0.0)
        for number, value in enumerate(returns, start=1)
    ]
    return Outcome(name, 0, "", points)


def test_the_experiments_lines_are_medians_over_the_seeds(tmp_path: Path) -> None:
    found = [outcome("ours, 4", returns) for returns in ([1.0, 2.0], [2.0, 4.0], [9.0, 9.0])]
    grid, returns = experiment.middle(found, "episodes", points=2)
    assert (grid, returns) == ([1.0, 2.0], [2.0, 4.0])
    assert experiment.figures(found, score=4.0)[-1] == 2.0
    experiment.draw({"ours, 4": found}, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_a_smoothed_curve_has_means_of_its_last_points() -> None:
    curve = experiment.smoothed(outcome("", [1.0, 3.0, 8.0]), points=2).curve
    assert [at.mean_return for at in curve] == [1.0, 2.0, 5.5]


def test_a_speed_up_is_the_time_of_one_actor_over_that_of_several() -> None:
    rows = {
        "a3c, 1, 0.001": [outcome("", [0.0, 0.0, 9.0], seconds=4.0)],
        "a3c, 1, 0.01": [outcome("", [0.0, 0.0, 0.0, 9.0], seconds=4.0)],
        "a3c, 2, 0.001": [outcome("", [0.0, 9.0], seconds=3.0)],
    }
    assert speedup.line("a3c", 2, 9.0, rows) == ("a3c", 2, 0.04, 6.0, 0.001, 2.0, 2.1)
    assert speedup.line("a3c", 2, 99.0, rows)[2:6] == (None, None, None, None)
