import pytest
import torch

from common.codecs.feedback import ErrorFeedback
from common.codecs.names import NAMES
from common.codecs.packed import PackedCodec
from common.codecs.registry import make

SIZE = 700
LOSSY = pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("none")])


def gradients(count: int) -> list[torch.Tensor]:
    """Mostly alike, of very different magnitudes: what rounding loses again and again."""
    generator = torch.Generator().manual_seed(0)
    mean = torch.randn(SIZE, generator=generator).pow(5) * 1e-3
    return [mean + 1e-5 * torch.randn(SIZE, generator=generator) for _ in range(count)]


def decoded(packed: PackedCodec, body: bytes) -> torch.Tensor:
    out = torch.empty(SIZE)
    packed.decode(body, out)
    return out.double()


@LOSSY
def test_the_decoded_sum_is_the_sum_once_the_residual_is_flushed(name: str) -> None:
    packed = make(name, SIZE)
    feedback = ErrorFeedback(packed)
    vectors = gradients(30)
    total = expected = torch.zeros(SIZE, dtype=torch.float64)
    for vector in [*vectors, *[torch.zeros(SIZE)] * 6]:
        total = total + decoded(packed, feedback.encode(vector))
        expected = expected + vector.double()
    assert torch.allclose(total, expected, rtol=1e-6, atol=1e-7)


@LOSSY
def test_the_error_of_the_sum_never_exceeds_that_of_one_vector(name: str) -> None:
    packed = make(name, SIZE)
    feedback = ErrorFeedback(packed)
    error = plain_error = torch.zeros(SIZE, dtype=torch.float64)
    for vector in gradients(30):
        bound = packed.bound(vector - error.float())
        error = error + decoded(packed, feedback.encode(vector)) - vector.double()
        plain_error = plain_error + decoded(packed, packed.encode(vector)) - vector.double()
        assert (error.abs() <= 1.001 * bound + 1e-7).all()
    assert error.norm() < 0.2 * plain_error.norm()


def test_a_lossless_codec_carries_nothing() -> None:
    packed = make("none+lz4", SIZE)
    feedback = ErrorFeedback(packed)
    for vector in gradients(3):
        assert feedback.encode(vector) == packed.encode(vector)


@LOSSY
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_a_bad_gradient_is_sent_as_bad_and_spoils_none_after_it(name: str, bad: float) -> None:
    packed = make(name, SIZE)
    feedback = ErrorFeedback(packed)
    first, second = gradients(2)
    spoilt = first.clone()
    spoilt[5] = bad
    assert not decoded(packed, feedback.encode(spoilt))[5].isfinite()
    after = decoded(packed, feedback.encode(second))
    assert ((after - second).abs() <= 3 * packed.bound(second) + 1e-7).all()


@LOSSY
def test_reset_forgets(name: str) -> None:
    packed = make(name, SIZE)
    feedback = ErrorFeedback(packed)
    first, second = gradients(2)
    feedback.encode(first)
    assert feedback.encode(second) != packed.encode(second)
    feedback.reset()
    assert feedback.encode(second) == packed.encode(second)


def test_the_vector_is_left_alone() -> None:
    vector = gradients(1)[0]
    before = vector.clone()
    ErrorFeedback(make("int8", SIZE)).encode(vector)
    assert torch.equal(vector, before)
