"""Weights and what travels beside them come out as they went in."""

import numpy as np
import pytest

from common.errors import CodecError
from common.wire.bodies.broadcast import FORMATS
from common.wire.bodies.weights import WHOLE_FORMATS, WeightsFormat

SIZE = 300


def test_every_format_but_delta_is_of_whole_weights() -> None:
    assert (*WHOLE_FORMATS, "delta") == FORMATS


@pytest.mark.parametrize(("form", "size"), [("fp32", 4), ("fp16", 2)])
@pytest.mark.parametrize("vectors", [1, 2])
@pytest.mark.parametrize("extras", [0, 7])
def test_there_and_back(form: str, size: int, vectors: int, extras: int) -> None:
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(SIZE, np.float32) for _ in range(vectors)]
    beside = np.float32(1e6) * rng.standard_normal(extras, np.float32)
    body = WeightsFormat(form, SIZE, vectors, extras).pack(given, beside)
    assert len(body) == vectors * SIZE * size + 4 * extras

    taken, there = [np.zeros(SIZE, np.float32) for _ in given], np.zeros(extras, np.float32)
    WeightsFormat(form, SIZE, vectors, extras).unpack(body, taken, there)
    assert np.array_equal(there, beside), "no half spoils the extras"
    for one, other in zip(given, taken, strict=True):
        np.testing.assert_allclose(other, one, rtol=0.0 if form == "fp32" else 2**-10, atol=0.0)


def test_another_length_is_refused_and_nothing_is_written() -> None:
    packing, vector = WeightsFormat("fp32", SIZE, 1, 2), np.zeros(SIZE, np.float32)
    body = packing.pack([np.ones(SIZE, np.float32)], np.ones(2, np.float32))
    for wrong in (body[:-1], body + b"\0", b""):
        with pytest.raises(CodecError, match="were expected"):
            packing.unpack(wrong, [vector], np.zeros(2, np.float32))
    assert not vector.any()
