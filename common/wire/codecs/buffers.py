"""The bytes of a message as elements of an array, and back, without a copy in between."""

from typing import Any

from numpy.typing import NDArray

from common.wire.frames import Buffer


def nbytes(body: Buffer) -> int:
    """Return the length of `body` in bytes, for a memoryview of any format."""
    return body.nbytes if isinstance(body, memoryview) else len(body)


def as_bytes(array: NDArray[Any]) -> memoryview:
    """Return the memory of a flat, contiguous array of at least one element; valid until the array is written."""
    return array.data.cast("B")
