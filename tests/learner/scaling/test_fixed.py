from common.settings.sections import Scaling
from learner.scaling.fixed import propose


def test_fixed_is_the_minimum() -> None:
    decision = propose(Scaling(minimum=6, maximum=9))
    assert (decision.wanted, decision.why) == (6, "fixed: 6 actors")
