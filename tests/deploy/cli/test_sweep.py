from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from common.errors import EXIT_CONFIGURATION, EXIT_TRY_LATER, ConfigurationError
from deploy.children import Children
from deploy.cli.sweep import COLUMNS, Case, cases_of, median, seeds_of, table, values_of
from tests.deploy.cli.test_simulate import run_file
from tests.helpers.command_line import a3cd


def test_every_combination_is_run_with_every_seed(tmp_path: Path) -> None:
    cases = list(cases_of(["actors=1,2", "optimizer.learning_rate=1e-3"], [0, 1], tmp_path))
    assert [(case.values["actors"], case.seed) for case in cases] == [("1", 0), ("1", 1), ("2", 0), ("2", 1)]
    assert len({case.folder for case in cases}) == 4


def test_a_case_says_its_values_as_options() -> None:
    case = Case({"actors": "4", "costs.gradient": "0.1", "exchange.credit": "2"}, 7, Path("x"))
    assert case.words == [
        *("--seed", "7", "--run-dir", "x", "--actors", "4"),
        *("--world-set", "costs.gradient=0.1", "--set", "exchange.credit=2"),
    ]


@pytest.mark.parametrize(("text", "seeds"), [(None, [5]), ("0..3", [0, 1, 2, 3]), ("4,1", [4, 1]), ("3", [3])])
def test_seeds_are_a_range_or_a_list(text: str | None, seeds: list[int]) -> None:
    assert seeds_of(text, 5) == seeds


@pytest.mark.parametrize("text", ["", "a", "3..1", "0...2", "1,1", "0..1000", "0..999999999999", "1,,2"])
def test_seeds_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=f"--seeds {text}: must be "):
        seeds_of(text, 5)


def test_a_value_may_be_a_list() -> None:
    assert values_of("network.hidden=[8],[8,8]") == ("network.hidden", ["[8]", "[8,8]"])
    for wrong in ("actors", "=1", "actors=1,,2"):
        with pytest.raises(ConfigurationError, match="--sweep"):
            values_of(wrong)


def test_the_table_has_a_row_for_each_combination_with_medians() -> None:
    def result(actors: str, seed: int, value: float | None) -> tuple[Case, dict[str, float | None]]:
        return Case({"actors": actors}, seed, Path("x")), dict.fromkeys(COLUMNS.values(), value)

    text = io.StringIO()
    rows = [result("4", 0, 1.0), result("4", 1, 3.0), result("4", 2, None), result("8", 0, None)]
    Console(file=text, width=200).print(table(rows))
    _, four, eight = text.getvalue().splitlines()
    assert four.split() == ["4", "3", *["2"] * len(COLUMNS)]
    assert eight.split() == ["8", "1", *["–"] * len(COLUMNS)]
    assert median([]) is None


@pytest.mark.slow
def test_simulations_run_as_processes_and_their_results_are_printed(tmp_path: Path) -> None:
    words = ("--sweep", "actors=1,2", "--seeds", "3", "--jobs", 2, "--run-dir", tmp_path / "all", "--json")
    result = a3cd("simulate", run_file(tmp_path), *words)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    peaks = [(one["values"], one["seed"], one["summary"]["actors_peak"]) for one in told]
    assert peaks == [({"actors": str(n)}, seed, n) for n in (1, 2) for seed in (3,)]


@pytest.mark.slow
def test_one_that_can_never_do_ends_the_sweep_for_good_and_is_named(tmp_path: Path) -> None:
    words = ("--sweep", "network.hidden=[-8]", "--run-dir", tmp_path / "all")
    result = a3cd("simulate", run_file(tmp_path), *words)
    assert result.exit_code == EXIT_CONFIGURATION
    assert "network.hidden=[-8],seed=0: ended with 78" in result.stderr


@pytest.mark.parametrize(
    ("code", "expected"),
    [(78, EXIT_CONFIGURATION), (2, EXIT_CONFIGURATION), (75, EXIT_TRY_LATER), (1, EXIT_TRY_LATER)],
)
def test_one_that_fails_ends_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, expected: int
) -> None:
    def start(self: Children, *_: object) -> SimpleNamespace:
        return SimpleNamespace(exit_code=code, last_lines=["a reason"])

    monkeypatch.setattr(Children, "start", start)
    result = a3cd("simulate", run_file(tmp_path), "--sweep", "actors=1", "--run-dir", tmp_path / "all")
    assert (result.exit_code, f"actors=1,seed=0: ended with {code}: a reason" in result.stderr) == (expected, True)


def test_costs_are_not_measured_beside_other_simulations(tmp_path: Path) -> None:
    result = a3cd("simulate", run_file(tmp_path), "--seeds", "0..1", "--measure")
    assert result.exit_code == EXIT_CONFIGURATION


def test_one_seed_and_several_do_not_go_together(tmp_path: Path) -> None:
    result = a3cd("simulate", run_file(tmp_path), "--seeds", "0..1", "--seed", "3")
    assert (result.exit_code, "goes without --seed" in result.stderr) == (EXIT_CONFIGURATION, True)
