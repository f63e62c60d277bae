from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from learner.arithmetic import set_arithmetic


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    torch.backends.cudnn.allow_tf32 = True


def test_it_computes_with_so_many_threads_and_without_shortcuts() -> None:
    for threads in (2, 1):
        set_arithmetic(threads)
        assert torch.get_num_threads() == threads
        assert torch.tensor([1e-40]).mul(1.0).item() == 0.0, "numbers that small cost a hundred times the time"
        assert not torch.backends.cudnn.allow_tf32
