from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.helpers.stage import Stage, staged


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    with staged(monkeypatch) as one:
        yield one


@pytest.fixture
def room() -> Iterator[Callable[[int], None]]:
    """Sets how many bytes a file may have, as if the disk had no more room."""
    resource = pytest.importorskip("resource", reason="Windows has no such limit")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
