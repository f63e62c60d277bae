"""The settings of a run for TensorBoard's HPARAMS page, which shows them beside the run's results."""

from common.settings.sections import Settings
from common.settings.toml import by_path

SHOWN = ("seed", "environment", "network", "algorithm", "optimizer", "staleness", "exchange.kind", "scaling.minimum")
"""Sections and settings that decide what is learnt; the page has a column for each."""
RESULTS = ("mean_return", "best_return", "evaluation_return", "frames", "seconds")
"""Figures of the metrics that the page also has columns for: their present values, and those at the end."""


def hyperparameters(settings: Settings) -> dict[str, bool | float | str]:
    """Return the shown settings by path, such as `optimizer.learning_rate`; lists and tables as text."""
    shown = {path: value for path, value in by_path(settings).items() if path.startswith(SHOWN)}
    return {path: value if isinstance(value, bool | int | float | str) else str(value) for path, value in shown.items()}
