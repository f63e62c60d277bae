import numpy as np
import pytest
import torch

from common.errors import CodecError
from common.wire.codecs.base import Codec
from common.wire.codecs.registry import CODEC_CLASSES
from tests.helpers.bounds import bound

SIZE = 300


@pytest.fixture(params=CODEC_CLASSES.values(), ids=list(CODEC_CLASSES))
def codec(request: pytest.FixtureRequest) -> Codec:
    made: Codec = request.param(SIZE)
    return made


@pytest.mark.parametrize(
    "vector",
    [
        np.zeros(SIZE + 1, np.float32),
        np.zeros((1, SIZE), np.float32),
        np.zeros(SIZE, np.float64),
        np.zeros(2 * SIZE, np.float32)[::2],
    ],
    ids=["size", "shape", "type", "layout"],
)
def test_other_vectors_are_refused_both_ways(codec: Codec, vector: np.ndarray) -> None:
    body = bytes(codec.encode(torch.zeros(SIZE).numpy()))
    with pytest.raises(ValueError, match="300 elements"):
        codec.encode(vector)
    with pytest.raises(ValueError, match="300 elements"):
        codec.decode(body, vector)


@pytest.mark.parametrize("change", [-1, 1, 1000])
def test_a_body_of_another_length_is_refused_and_writes_nothing(codec: Codec, change: int) -> None:
    out = torch.full((SIZE,), 7.0)
    with pytest.raises(CodecError, match=f"must be {codec.raw_bytes} bytes, not {codec.raw_bytes + change}"):
        codec.decode(bytes(codec.raw_bytes + change), out.numpy())
    assert torch.equal(out, torch.full((SIZE,), 7.0))


def test_an_empty_body_is_refused(codec: Codec) -> None:
    with pytest.raises(CodecError):
        codec.decode(b"", torch.empty(SIZE).numpy())


def test_encode_leaves_the_vector_alone_and_takes_one_that_is_read_only(codec: Codec) -> None:
    vector = torch.randn(SIZE, generator=torch.Generator().manual_seed(0))
    before = vector.clone()
    plain = bytes(codec.encode(vector.numpy()))
    assert torch.equal(vector, before)
    array = vector.numpy()
    array.flags.writeable = False
    assert bytes(codec.encode(array)) == plain


def test_a_slice_of_a_larger_array_encodes_and_decodes(codec: Codec) -> None:
    larger = torch.randn(3 * SIZE, generator=torch.Generator().manual_seed(0))
    middle = larger[SIZE : 2 * SIZE]
    body = bytes(codec.encode(middle.numpy()))
    assert body == bytes(codec.encode(middle.clone().numpy()))
    out = torch.zeros(3 * SIZE)
    codec.decode(body, out[SIZE : 2 * SIZE].numpy())
    assert not out[:SIZE].any() and not out[2 * SIZE :].any()
    assert ((out[SIZE : 2 * SIZE] - middle).abs() <= bound(codec, middle)).all()


def test_a_body_may_lie_anywhere_in_a_frame(codec: Codec) -> None:
    vector = torch.randn(SIZE, generator=torch.Generator().manual_seed(0))
    body = bytes(codec.encode(vector.numpy()))
    straight, shifted = torch.empty(SIZE), torch.empty(SIZE)
    codec.decode(body, straight.numpy())
    codec.decode(memoryview(b"\xff" + body)[1:], shifted.numpy())
    assert torch.equal(straight, shifted)


def test_no_elements_is_no_codec() -> None:
    for made in CODEC_CLASSES.values():
        with pytest.raises(ValueError, match="at least 1"):
            made(0)
