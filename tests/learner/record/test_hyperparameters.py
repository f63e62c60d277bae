from __future__ import annotations

from common.settings.sections import Settings
from learner.record.hyperparameters import RESULTS, hyperparameters
from learner.run import EVALUATED, METRICS
from tests.helpers.run import settings_of


def test_what_decides_what_is_learnt_is_shown_by_its_path() -> None:
    found = hyperparameters(settings_of("optimizer.learning_rate=0.5", "seed=3"))
    assert (found["optimizer.learning_rate"], found["seed"], found["algorithm.kind"]) == (0.5, 3, "a3c")
    assert (found["network.hidden"], found["network.shared"], found["scaling.minimum"]) == ("[128]", True, 2)
    assert not [name for name in found if name.startswith(("checkpoint", "limits", "record", "scaling.maximum"))]


def test_each_is_a_number_or_a_text() -> None:
    assert {type(one) for one in hyperparameters(Settings()).values()} == {bool, int, float, str}


def test_the_results_are_figures_of_a_row() -> None:
    assert set(RESULTS) <= {*METRICS, *EVALUATED}
