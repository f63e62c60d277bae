from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _importable_test_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets `broken_environments:Id-v0` be imported as an operator's own module would be."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
