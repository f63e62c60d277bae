from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.helpers.stage import Stage, staged


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    with staged(monkeypatch) as one:
        yield one
