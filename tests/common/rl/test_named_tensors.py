from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.rl.named_tensors import NamedTensor, plain_tensor, to_tensors, to_vector


@st.composite
def layouts(draw: st.DrawFn) -> list[NamedTensor]:
    """Any views, transposed in any way, with two of their axes joined or not."""
    found = []
    for number in range(draw(st.integers(0, 4))):
        view = draw(st.lists(st.integers(0, 4), max_size=4))
        axes = draw(st.permutations(range(len(view))))
        shape = [view[axis] for axis in axes]
        if len(shape) > 1 and draw(st.booleans()):
            shape = [shape[0] * shape[1], *shape[2:]]
        found.append(NamedTensor(f"t{number}", tuple(view), tuple(axes), tuple(shape)))
    return found


@given(layouts())
def test_there_and_back_to_the_bit(layout: list[NamedTensor]) -> None:
    vector = np.random.default_rng(0).normal(size=sum(one.size for one in layout)).astype(np.float32)
    tensors = to_tensors(vector, layout)
    assert {name: one.shape for name, one in tensors.items()} == {one.name: one.shape for one in layout}
    assert all(one.flags.c_contiguous and one.flags.owndata for one in tensors.values())
    np.testing.assert_array_equal(to_vector(dict(reversed(tensors.items())), layout), vector)


def test_what_they_are() -> None:
    layout = [NamedTensor("b", (2, 3), (1, 0), (3, 2)), plain_tensor("a", 2)]
    tensors = to_tensors(np.arange(8, dtype=np.float32), layout)
    assert tensors["b"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert tensors["a"].tolist() == [6, 7]
    assert layout[0].size == math.prod((2, 3))
    with pytest.raises(ValueError, match="a layout of 8 numbers for a vector of 9"):
        to_tensors(np.zeros(9, np.float32), layout)
