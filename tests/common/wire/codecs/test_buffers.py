import array

import pytest
import torch

from common.wire.codecs.buffers import as_bytes, nbytes, read
from common.wire.frames import Buffer

VALUES = torch.tensor([1.5, -2.0, 0.25, 65504.0])


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("offset", [0, 1, 2, 4])
def test_reads_at_any_offset_from_any_buffer(wrap: type[Buffer], dtype: torch.dtype, offset: int) -> None:
    stored = VALUES.to(dtype)
    body = wrap(bytes(offset) + bytes(as_bytes(stored)) + b"rest")
    out = torch.empty(4)
    read(body, offset, dtype, out)
    assert torch.equal(out, stored.float())


def test_never_reads_beyond_the_body() -> None:
    with pytest.raises(ValueError):
        read(bytes(15), 0, torch.float32, torch.empty(4))


def test_nbytes_counts_bytes_not_elements() -> None:
    assert nbytes(memoryview(array.array("d", [1.0, 2.0]))) == 16
    assert nbytes(b"abc") == nbytes(bytearray(3)) == 3


def test_as_bytes_shares_memory() -> None:
    tensor = torch.zeros(2, dtype=torch.int16)
    view = as_bytes(tensor)
    tensor.fill_(-1)
    assert bytes(view) == b"\xff" * 4
