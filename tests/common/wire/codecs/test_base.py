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
        torch.zeros(SIZE + 1),
        torch.zeros(1, SIZE),
        torch.zeros(SIZE, dtype=torch.float64),
        torch.zeros(2 * SIZE)[::2],
        torch.zeros(SIZE, device="meta"),
    ],
    ids=["size", "shape", "type", "layout", "device"],
)
def test_other_vectors_are_refused_both_ways(codec: Codec, vector: torch.Tensor) -> None:
    body = bytes(codec.encode(torch.zeros(SIZE)))
    with pytest.raises(ValueError, match="300 elements"):
        codec.encode(vector)
    with pytest.raises(ValueError, match="300 elements"):
        codec.decode(body, vector)


@pytest.mark.parametrize("change", [-1, 1, 1000])
def test_a_body_of_another_length_is_refused_and_writes_nothing(codec: Codec, change: int) -> None:
    out = torch.full((SIZE,), 7.0)
    with pytest.raises(CodecError, match=f"must be {codec.raw_bytes} bytes, not {codec.raw_bytes + change}"):
        codec.decode(bytes(codec.raw_bytes + change), out)
    assert torch.equal(out, torch.full((SIZE,), 7.0))


def test_an_empty_body_is_refused(codec: Codec) -> None:
    with pytest.raises(CodecError):
        codec.decode(b"", torch.empty(SIZE))


def test_encode_leaves_the_vector_alone_and_takes_one_that_requires_grad(codec: Codec) -> None:
    vector = torch.randn(SIZE, generator=torch.Generator().manual_seed(0))
    before = vector.clone()
    plain = bytes(codec.encode(vector))
    assert torch.equal(vector, before)
    assert bytes(codec.encode(vector.requires_grad_())) == plain


def test_a_slice_of_a_larger_tensor_encodes_and_decodes(codec: Codec) -> None:
    larger = torch.randn(3 * SIZE, generator=torch.Generator().manual_seed(0))
    middle = larger[SIZE : 2 * SIZE]
    body = bytes(codec.encode(middle))
    assert body == bytes(codec.encode(middle.clone()))
    out = torch.zeros(3 * SIZE)
    codec.decode(body, out[SIZE : 2 * SIZE])
    assert not out[:SIZE].any() and not out[2 * SIZE :].any()
    assert ((out[SIZE : 2 * SIZE] - middle).abs() <= bound(codec, middle)).all()


def test_a_body_may_lie_anywhere_in_a_frame(codec: Codec) -> None:
    vector = torch.randn(SIZE, generator=torch.Generator().manual_seed(0))
    body = bytes(codec.encode(vector))
    straight, shifted = torch.empty(SIZE), torch.empty(SIZE)
    codec.decode(body, straight)
    codec.decode(memoryview(b"\xff" + body)[1:], shifted)
    assert torch.equal(straight, shifted)


def test_no_elements_is_no_codec() -> None:
    for made in CODEC_CLASSES.values():
        with pytest.raises(ValueError, match="at least 1"):
            made(0)
