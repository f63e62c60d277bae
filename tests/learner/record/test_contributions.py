from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from common.settings.toml import override
from learner.record.contributions import contributions
from tests.helpers.recorded import NORM, RecordedRun


@pytest.fixture(autouse=True)
def denormals() -> Iterator[None]:
    """A learner flushes them for its process; Hypothesis needs floats as they should be."""
    yield
    torch.set_flush_denormal(False)


def test_what_an_actor_contributed_is_listed_with_the_version_that_it_went_into(tmp_path: Path) -> None:
    run = RecordedRun(tmp_path / "run")
    run.steps(2, "a", "b", lag=1)
    run.save()
    run.steps(1, "a")
    run.start()
    run.steps(1, "a")
    run.end()
    found = list(contributions(run.folder.gradients, "a"))
    assert [(one.sequence, one.version, one.lag) for one in found] == [(1, 1, 0), (2, 3, 1), (4, 5, 0)]
    assert [one.norm for one in found] == pytest.approx([NORM] * 3)
    assert [one.weight for one in found] == pytest.approx([1, 2**-0.5, 1])
    everyone = list(contributions(run.folder.gradients))
    assert [one.peer for one in everyone] == ["a", "b", "a", "b", "a"]
    assert list(contributions(run.folder.gradients, "c")) == []


def test_a_resumed_run_may_send_other_parts_of_its_gradients(tmp_path: Path) -> None:
    run = RecordedRun(tmp_path / "run", "exchange.codec=top-k", "exchange.top_k=0.05")
    run.steps(1)
    run.save()
    run.start(override(run.settings, ["exchange.top_k=0.25"]))
    run.steps(1)
    run.end()
    first, second = (one.norm for one in contributions(run.folder.gradients))
    assert first is not None and second is not None
    assert 0.0 < first < second < NORM


def test_trajectories_have_no_norm(tmp_path: Path) -> None:
    run = RecordedRun(tmp_path / "run", "algorithm.kind=a2c", "exchange.kind=trajectories")
    run.steps(1)
    run.end()
    (one,) = contributions(run.folder.gradients)
    assert one.norm is None
