"""Episodes that an agent is judged on are none that it was trained on."""

from __future__ import annotations

from itertools import islice

import pytest

from common.errors import ConfigurationError
from common.rl.environments.base import env_seed
from common.rl.environments.make import make
from common.rl.seeds import held_out_seeds
from common.settings.sections import Environment
from learner.run import SEEDS_PER_RUN


def test_each_purpose_and_each_path_has_its_own_seeds_and_has_them_again() -> None:
    ways = [("selection", 0), ("selection", 1), ("report", 0), ("selection", 0, 1), ("selection", 1, 0)]
    seeds = [tuple(islice(held_out_seeds(purpose, *path), 20)) for purpose, *path in ways]  # type: ignore[arg-type]
    assert len({seed for some in seeds for seed in some}) == 20 * len(ways)
    assert seeds[0] == tuple(islice(held_out_seeds("selection", 0), 20))


def test_a_negative_number_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="seed = -1: must be 0 or more"):
        held_out_seeds("report", -1)


def test_no_actor_has_such_a_seed() -> None:
    """Neither as a number nor by what becomes of it: the environments of 40 actors, and those of 40 evaluations."""
    largest = (2**31 - 1) * SEEDS_PER_RUN + 10**6
    held_out = list(islice(held_out_seeds("report", 0), 40))
    assert largest < 2**63 <= min(held_out)
    trained = {env_seed(actor, index) for actor in range(40) for index in range(16)}
    assert trained.isdisjoint(env_seed(seed, index) for seed in held_out for index in range(16))


def test_every_kind_of_batch_takes_them() -> None:
    for count in (2, 8):  # one after the other, and as a vector
        batch = make(Environment(), num_envs=count, seed=0)
        first, second = (batch.reset(seed).copy() for seed in islice(held_out_seeds("report", 0), 2))
        batch.close()
        assert (first != second).any()
