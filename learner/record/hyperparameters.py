"""The settings of a run as TensorBoard's HPARAMS page shows them, beside what came of it."""

from collections.abc import Iterator
from typing import Any

import msgspec

from common.settings.sections import Settings

SHOWN = ("environment", "network", "algorithm", "optimizer", "staleness", "exchange.kind", "scaling.minimum")
"""Sections and settings that decide what is learnt, besides the seed; the page has a column for each."""
RESULTS = ("mean_return", "best_return", "evaluation_return", "frames", "seconds")
"""Figures of the metrics that the page has columns for as well: how they are now, and at the end."""


def hyperparameters(settings: Settings) -> dict[str, bool | float | str]:
    """By path, such as `optimizer.learning_rate`; lists and tables as text."""
    plain: dict[str, Any] = msgspec.to_builtins(settings)
    return {"seed": settings.seed, **{path: one for path, one in _flat(plain) if path.startswith(SHOWN)}}


def _flat(plain: dict[str, Any]) -> Iterator[tuple[str, bool | float | str]]:
    for section, values in plain.items():
        if isinstance(values, dict):
            for key, value in values.items():
                yield f"{section}.{key}", value if isinstance(value, bool | int | float | str) else str(value)
