"""What an action is made of."""

import numpy as np
import pytest

from common.rl.action_spec import ActionSpec, discrete


def box(shape: tuple[int, ...], *squashed: bool, **changed: str) -> ActionSpec:
    return ActionSpec("box", shape=shape, squashed=squashed, **changed)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("spec", "width", "outputs", "dtype"),
    [
        (discrete(4), 4, 4, np.int64),
        (ActionSpec("multi-discrete", (3, 2, 5), (3,)), 10, 10, np.int64),
        (box((2, 2), *(True,) * 4), 8, 4, np.float32),
        (box((2,), False, True, log_std="state"), 4, 4, np.float32),
        (box((), False), 2, 1, np.float32),
    ],
)
def test_what_a_network_gives(spec: ActionSpec, width: int, outputs: int, dtype: type) -> None:
    assert (spec.width, spec.outputs, spec.dtype) == (width, outputs, dtype)


def test_the_suffix_tells_apart_what_the_width_does_not() -> None:
    specs = [
        *(box((2,), True, True), box((2,), True, False), box((2,), True, True, log_std="state")),
        *(discrete(4), ActionSpec("multi-discrete", (2, 2), (2,)), ActionSpec("multi-discrete", (1, 3), (2,))),
    ]
    assert len({spec.suffix for spec in specs}) == len(specs)


@pytest.mark.parametrize(
    ("values", "expected"), [(1, "u1"), (256, "u1"), (257, "<u2"), (2**16, "<u2"), (2**16 + 1, "<u4")]
)
def test_choices_are_packed_as_small_as_they_fit(values: int, expected: str) -> None:
    assert discrete(values).packed == expected
