import array

import numpy as np

from common.wire.codecs.buffers import as_bytes, nbytes


def test_nbytes_counts_bytes_not_elements() -> None:
    assert nbytes(memoryview(array.array("d", [1.0, 2.0]))) == 16
    assert nbytes(b"abc") == nbytes(bytearray(3)) == 3


def test_as_bytes_shares_memory() -> None:
    values = np.zeros(2, np.int16)
    view = as_bytes(values)
    values.fill(-1)
    assert bytes(view) == b"\xff" * 4
