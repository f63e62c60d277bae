"""What an action is made of."""

import pytest

from common.networks.action import ActionSpec, discrete


def test_discrete() -> None:
    assert (discrete(4).width, discrete(4).shape) == (4, ())


@pytest.mark.parametrize("sizes", [(), (0,), (2, 3)])
def test_what_is_no_action_is_refused(sizes: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="discrete actions have one size"):
        ActionSpec("discrete", sizes)
