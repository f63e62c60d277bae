import pytest
import torch

from common.errors import CodecError
from common.settings.codec_names import CODECS, TOP_K
from common.wire.codecs.registry import CODEC_CLASSES, NAMES, make
from tests.helpers.bounds import bound


@pytest.mark.parametrize("name", NAMES)
def test_every_name_makes_a_codec_that_bears_it(name: str) -> None:
    packed = make(name, 10)
    assert packed.name == name
    assert packed.size == 10
    assert packed.codec.name == name.partition("+")[0]
    out, one = torch.empty(10), torch.eye(10)[3]
    packed.decode(packed.encode(one), out)
    assert ((out - one).abs() <= bound(packed, one)).all()


def test_top_k_takes_its_fraction_and_the_others_none() -> None:
    for fraction, count in ((0.1, 10), (0.25, 25)):
        packed, out = make("top-k+lz4", 100, fraction), torch.empty(100)
        packed.decode(packed.encode(torch.arange(1.0, 101.0)), out)
        assert out.count_nonzero() == count
    assert make("top-k", 100).codec.raw_bytes == make("top-k", 100, TOP_K).codec.raw_bytes
    assert make("int8", 100, 0.1).codec.raw_bytes == make("int8", 100).codec.raw_bytes
    with pytest.raises(ValueError, match="fraction"):
        make("top-k", 100, 0.0)


def test_the_table_is_complete() -> None:
    assert tuple(CODEC_CLASSES) == CODECS
    assert all(codec.name == kind for kind, codec in CODEC_CLASSES.items())


@pytest.mark.parametrize("name", ["", "fp8", "int8+", "int8+none", "+lz4", "int8+zstd+lz4", "INT8"])
def test_an_unknown_name_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(CodecError, match=r"known are none, .*int8\+zstd"):
        make(name, 10)


def test_no_elements_is_no_codec() -> None:
    with pytest.raises(ValueError):
        make("int8", 0)
