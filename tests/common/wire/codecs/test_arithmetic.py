"""What is computed by torch is, to the bit, what is computed by numpy where torch is not loaded."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from common.wire.codecs import arithmetic
from common.wire.codecs.arithmetic import (
    add_times,
    convert,
    from_bfloat16,
    quantise,
    row_peaks,
    scale_rows,
    square_sum,
    to_bfloat16,
)

LARGEST = np.finfo(np.float32).max
AWKWARD = np.array(
    [
        *(0.0, -0.0, 2.0**-149, 2.0**-134, 2.0**-126, 2.0**-25, -(2.0**-24), 3 * 2.0**-25, 2.0**-14, 1 + 2.0**-11),
        *(1 + 3 * 2.0**-11, 1 + 2.0**-8, 1 + 3 * 2.0**-8, 65504.0, 65519.99, 65520.0, -65520.0, LARGEST, -LARGEST),
        *(np.inf, -np.inf, np.nan),
    ],
    np.float32,
)
"""Subnormals, halves between two neighbours, both ends of the ranges, and what is no number."""
LONG = 256 * 300


def both(compute: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """What torch makes of it, whatever the length, and what numpy does."""
    monkeypatch.setattr(arithmetic, "_SHORT", 0)
    by_torch = compute()
    with monkeypatch.context() as without:
        without.delitem(sys.modules, "torch")
        return by_torch, compute()


def bits_of(seed: int, size: int = LONG) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**32, size, np.uint32)


def same(one: np.ndarray, other: np.ndarray) -> bool:
    """To the bit, but for the payload of NaN."""
    assert one.dtype == other.dtype
    whole = np.dtype(f"u{one.itemsize}")
    return bool(((one.view(whole) == other.view(whole)) | (np.isnan(one) & np.isnan(other))).all())


def values() -> np.ndarray:
    """Awkward ones, then any bits."""
    return np.concatenate([AWKWARD, bits_of(0).view(np.float32)])


def test_to_half_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    given = values()

    def halves() -> np.ndarray:
        out = np.empty(given.size, np.float16)
        convert(given, out)
        return out

    by_torch, by_numpy = both(halves, monkeypatch)
    assert same(by_torch, by_numpy)
    assert by_torch[[13, 14, 15]].tolist() == [65504.0, 65504.0, np.inf]


def test_from_every_half(monkeypatch: pytest.MonkeyPatch) -> None:
    given = np.arange(1 << 16, dtype=np.uint16).view(np.float16)

    def wide() -> np.ndarray:
        out = np.empty(given.size, np.float32)
        convert(given, out)
        return out

    assert same(*both(wide, monkeypatch))


def test_to_bfloat16_and_back(monkeypatch: pytest.MonkeyPatch) -> None:
    given = values()

    def there_and_back() -> np.ndarray:
        bits, out = np.empty(given.size, np.uint16), np.empty(given.size, np.float32)
        to_bfloat16(given, bits)
        from_bfloat16(bits, out)
        return out

    by_torch, by_numpy = both(there_and_back, monkeypatch)
    assert same(by_torch, by_numpy)
    assert (np.isnan(by_torch) == np.isnan(given)).all(), "no NaN has become a number"


def test_bytes_to_floats(monkeypatch: pytest.MonkeyPatch) -> None:
    given = bits_of(1).view(np.int8)

    def floats() -> np.ndarray:
        out = np.empty(given.size, np.float32)
        convert(given, out)
        return out

    assert same(*both(floats, monkeypatch))


@pytest.mark.parametrize("seed", range(3))
def test_rows(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((300, 256), np.float32)
    rows[7, 3], rows[9, 255] = np.inf, -np.inf

    def computed() -> np.ndarray:
        peaks, scaled, codes = np.empty(300, np.float32), rows.copy(), np.empty(rows.shape, np.int8)
        row_peaks(rows, peaks)
        factors = np.where(np.isinf(peaks), np.float32(0), 127 / peaks).astype(np.float32)
        scale_rows(scaled, factors, scaled)
        finite = np.where(np.isinf(rows), np.float32(0), rows)
        quantise(finite, factors, np.empty_like(rows), codes)
        return np.concatenate([peaks, scaled.ravel(), codes.ravel().astype(np.float32)])

    by_torch, by_numpy = both(computed, monkeypatch)
    assert same(by_torch, by_numpy)
    assert by_torch[:300].tolist() == np.abs(rows).max(1).tolist()


def test_nan_is_the_peak_of_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.ones((3, 4), np.float32)
    rows[1, 2] = np.nan

    def peaks() -> np.ndarray:
        out = np.empty(3, np.float32)
        row_peaks(rows, out)
        return out

    for found in both(peaks, monkeypatch):
        assert np.isnan(found).tolist() == [False, True, False]


@pytest.mark.parametrize("offset", [0, 1, 2, 3])
def test_read_only_memory_is_read_at_any_offset(offset: int, monkeypatch: pytest.MonkeyPatch) -> None:
    body = bytes(offset) + AWKWARD[:10].astype(np.float16).tobytes()

    def read() -> np.ndarray:
        out = np.empty(10, np.float32)
        convert(np.frombuffer(body, np.float16, offset=offset), out)
        return out

    by_torch, by_numpy = both(read, monkeypatch)
    assert same(by_torch, by_numpy)
    assert same(by_torch, AWKWARD[:10].astype(np.float16).astype(np.float32))


def test_a_torch_that_is_only_half_loaded_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert arithmetic.loaded_torch() is torch
    monkeypatch.setattr(torch.__spec__, "_initializing", True)
    assert arithmetic.loaded_torch() is None
    monkeypatch.delitem(sys.modules, "torch")
    assert arithmetic.loaded_torch() is None


def test_the_sum_of_squares(monkeypatch: pytest.MonkeyPatch) -> None:
    vector = np.random.default_rng(0).standard_normal(LONG, np.float32)
    expected = float(np.square(vector.astype(np.float64)).sum())
    assert both(lambda: square_sum(vector), monkeypatch) == pytest.approx((expected, expected), rel=1e-5)
    vector[77] = np.nan
    assert np.isnan(both(lambda: square_sum(vector), monkeypatch)).all()
    vector[77] = -LARGEST
    assert np.isinf(both(lambda: square_sum(vector), monkeypatch)).all()


@pytest.mark.parametrize("factor", [1.0, 0.3])
def test_a_multiple_is_added(factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    before, values = generator.standard_normal((2, LONG), np.float32)
    body = b"1" + values.tobytes()

    def total() -> np.ndarray:
        out = before.copy()
        add_times(out, np.frombuffer(body, np.float32, offset=1), factor)
        return out

    expected = before.astype(np.float64) + factor * values.astype(np.float64)
    for found in both(total, monkeypatch):
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
