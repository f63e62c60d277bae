"""The settings of a run as TensorBoard's HPARAMS page shows them, beside what came of it."""

from common.settings.sections import Settings
from common.settings.toml import by_path

SHOWN = ("seed", "environment", "network", "algorithm", "optimizer", "staleness", "exchange.kind", "scaling.minimum")
"""Sections and settings that decide what is learnt; the page has a column for each."""
RESULTS = ("mean_return", "best_return", "evaluation_return", "frames", "seconds")
"""Figures of the metrics that the page has columns for as well: how they are now, and at the end."""


def hyperparameters(settings: Settings) -> dict[str, bool | float | str]:
    """By path, such as `optimizer.learning_rate`; lists and tables as text."""
    shown = {path: value for path, value in by_path(settings).items() if path.startswith(SHOWN)}
    return {path: value if isinstance(value, bool | int | float | str) else str(value) for path, value in shown.items()}
