import dataclasses

import pytest

from common.wire.messages import Refused
from learner.effects import Log, Send, refuse


def test_a_refusal_goes_to_the_peer_with_its_code() -> None:
    assert refuse(b"x", "unknown", "say hello first") == Send(b"x", Refused(code="unknown", reason="say hello first"))


def test_what_is_to_be_done_cannot_be_changed() -> None:
    line = Log("info", "text")
    with pytest.raises(dataclasses.FrozenInstanceError):
        line.text = "another"  # type: ignore[misc]
