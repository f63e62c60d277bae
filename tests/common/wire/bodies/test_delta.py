"""Weights against a keyframe come back within the bound that is stated, and nothing else is believed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import CodecError
from common.wire.bodies.delta import KEYFRAME, DeltaFormat, keyframe_of
from common.wire.codecs.int8 import BLOCK

SIZE = 300
NOTHING = np.zeros(0, np.float32)
VERSION = 7


def random(size: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(size, np.float32)


def bound(difference: np.ndarray) -> np.ndarray:
    """Largest of each element's block over 254."""
    starts = np.arange(0, difference.size, BLOCK)
    return np.repeat(np.maximum.reduceat(np.abs(difference), starts), BLOCK)[: difference.size] / 254


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_delta_begins_with_the_version_of_its_keyframe(kind: type) -> None:
    assert keyframe_of(kind(KEYFRAME.pack(2**40) + b"rest")) == 2**40
    assert keyframe_of(kind(KEYFRAME.pack(5))) == 5
    assert keyframe_of(kind(bytes(7))) is None


@pytest.mark.parametrize("vectors", [1, 2])
@pytest.mark.parametrize("extras", [0, 5])
def test_there_and_back_within_the_bound(vectors: int, extras: int) -> None:
    keyframe, difference = random(vectors * SIZE, 1), np.float32(0.01) * random(vectors * SIZE, 2)
    beside = np.float32(1e6) * random(extras, 3)
    body = DeltaFormat(SIZE, vectors, extras).pack(VERSION, difference, beside)
    taken, there = [np.zeros(SIZE, np.float32) for _ in range(vectors)], np.zeros(extras, np.float32)
    DeltaFormat(SIZE, vectors, extras).unpack(body, VERSION, keyframe, taken, there)
    errors = np.abs(np.concatenate(taken) - (keyframe + difference))
    assert (errors <= bound(difference) * 1.001 + 1e-6).all()
    assert errors.max() > bound(difference).max() / 4, "the bound is no empty one"
    assert np.array_equal(there, beside)


def test_what_has_not_changed_comes_out_as_the_keyframe() -> None:
    keyframe, out = random(SIZE, 1), np.zeros(SIZE, np.float32)
    packing = DeltaFormat(SIZE)
    packing.unpack(packing.pack(VERSION, np.zeros(SIZE, np.float32), NOTHING), VERSION, keyframe, [out], NOTHING)
    assert np.array_equal(out, keyframe)


def test_a_delta_against_another_keyframe_is_refused_and_nothing_is_written() -> None:
    packing, out = DeltaFormat(SIZE), np.zeros(SIZE, np.float32)
    body = packing.pack(VERSION, random(SIZE, 1), NOTHING)
    with pytest.raises(CodecError, match="against the keyframe 7, but 8 is what there is"):
        packing.unpack(body, VERSION + 1, np.ones(SIZE, np.float32), [out], NOTHING)
    assert not out.any()


@given(st.binary(max_size=64), st.booleans())
def test_bytes_that_are_no_delta_are_refused(noise: bytes, named: bool) -> None:
    packing, out, extras = DeltaFormat(SIZE, 1, 2), np.zeros(SIZE, np.float32), np.zeros(2, np.float32)
    body = KEYFRAME.pack(VERSION) + noise if named else noise
    with pytest.raises(CodecError):
        packing.unpack(body, VERSION, np.ones(SIZE, np.float32), [out], extras)
    assert not out.any() and not extras.any()


@given(st.data())
def test_a_damaged_one_never_raises_anything_else(data: st.DataObject) -> None:
    packing, out = DeltaFormat(SIZE), np.zeros(SIZE, np.float32)
    body = bytearray(packing.pack(VERSION, random(SIZE, 1), NOTHING))
    body[data.draw(st.integers(0, len(body) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        packing.unpack(body[: data.draw(st.integers(0, len(body)))], VERSION, np.ones(SIZE, np.float32), [out], NOTHING)
    except CodecError:
        assert not out.any()
