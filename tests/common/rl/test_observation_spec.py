"""Observations as arrays."""

import numpy as np
import pytest

from common.rl.observation_spec import ObservationSpec


@pytest.mark.parametrize(("kind", "dtype"), [("box", np.float32), ("pixels", np.uint8), ("discrete", np.int64)])
def test_dtype(kind: str, dtype: type) -> None:
    spec = ObservationSpec(() if kind == "discrete" else (3,), kind, 3)  # type: ignore[arg-type]
    assert spec.dtype == dtype
    assert spec.nbytes == np.zeros(spec.shape, dtype).nbytes
