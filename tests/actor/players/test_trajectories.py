from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from actor.players.trajectories import TrajectoryPlayer
from common.errors import NonFiniteError
from common.wire.bodies.trajectory import TrajectoryFormat
from tests.actor.players.conftest import SMALL, Make
from tests.helpers.environments import Scripted
from tests.helpers.run import settings_of

FOREVER = math.inf
FORMAT = TrajectoryFormat(settings_of(*SMALL), Scripted.observation, Scripted.action, 0)


def test_all_rollouts_since_the_last_message_are_packed(environments: Scripted, make: Make) -> None:
    player = make(TrajectoryPlayer)
    for count in (3, 1):
        assert all(player.advance(FOREVER) for _ in range(count))
        assert player.pending == count
        summary, body = player.pack(1)
        rollout = FORMAT.unpack(body, "none", count)
        assert rollout.actions.shape == (6, 2 * count)
        assert (summary.count, summary.steps, summary.statistics) == (count, rollout.steps, {})
        first, last = rollout.observations[0], rollout.observations[-1]
        assert np.array_equal(first[2:], last[:-2]), "each begins where the one before ended"


def test_a_new_epoch_drops_pending_rollouts(environments: Scripted, make: Make) -> None:
    player = make(TrajectoryPlayer)
    player.advance(FOREVER)
    player.forget()
    assert player.pending == 0
    player.advance(FOREVER)
    summary, body = player.pack(1)
    assert summary.version == 0
    assert FORMAT.unpack(body, "none", 1).actions.shape == (6, 2)


def test_a_rollout_that_the_learner_would_refuse_is_dropped(
    environments: Scripted, make: Make, weights: Callable[[float], bytes]
) -> None:
    player = make(TrajectoryPlayer)
    player.load(11, weights(math.nan))
    with pytest.raises(NonFiniteError, match=r"a number that is not finite, or beyond 1e\+16: rollout dropped"):
        player.advance(FOREVER)
    assert player.pending == 0
    player.load(12, weights(0.5))
    player.restart()
    assert player.advance(FOREVER)
    environments.rewards = [1e17]
    with pytest.raises(NonFiniteError, match=r"a number that is not finite, or beyond 1e\+16: rollout dropped"):
        player.advance(FOREVER)
    player.close()
    assert environments.closed
