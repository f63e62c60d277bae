from __future__ import annotations

import pytest

from common.wire.bodies.keyframe import KEYFRAME, keyframe_of


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_delta_begins_with_the_version_of_its_keyframe(kind: type) -> None:
    assert keyframe_of(kind(KEYFRAME.pack(2**40) + b"rest")) == 2**40
    assert keyframe_of(kind(KEYFRAME.pack(5))) == 5
    assert keyframe_of(kind(bytes(7))) is None
