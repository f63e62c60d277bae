import pytest
import torch

from common.codecs.names import CODECS
from common.codecs.registry import CODEC_CLASSES, NAMES, make
from common.errors import CodecError


@pytest.mark.parametrize("name", NAMES)
def test_every_name_makes_a_codec_that_bears_it(name: str) -> None:
    packed = make(name, 10)
    assert packed.name == name
    assert packed.size == 10
    assert packed.codec.name == name.partition("+")[0]
    out = torch.empty(10)
    packed.decode(packed.encode(torch.ones(10)), out)
    assert torch.allclose(out, torch.ones(10))


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
