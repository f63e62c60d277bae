from common.wire.messages import Refused
from learner.effects import Send, refuse


def test_a_refusal_goes_to_the_peer_with_its_code() -> None:
    assert refuse(b"x", "unknown", "say hello first") == Send(b"x", Refused(code="unknown", reason="say hello first"))
