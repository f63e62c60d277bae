import struct

import torch
from hypothesis import given
from hypothesis import strategies as st

from common.wire.codecs.none import NoneCodec


@given(st.lists(st.floats(width=32), min_size=1, max_size=40))
def test_every_bit_comes_back(values: list[float]) -> None:
    vector = torch.tensor(values)
    codec = NoneCodec(len(values))
    out = torch.empty_like(vector)
    codec.decode(codec.encode(vector), out)
    assert torch.equal(out.view(torch.int32), vector.view(torch.int32))


def test_golden_bytes() -> None:
    assert bytes(NoneCodec(2).encode(torch.tensor([1.0, -2.5]))) == struct.pack("<2f", 1.0, -2.5)
