from __future__ import annotations

from common.rl.environments.seeds import env_seed


def test_differs_for_neighbouring_actors_and_copies() -> None:
    seeds = {env_seed(seed, copy) for seed in range(40) for copy in range(40)}
    assert len(seeds) == 1600


def test_is_the_same_on_every_machine_and_fits_31_bits() -> None:
    assert env_seed(7, 3) == 1733098030
    assert all(0 <= env_seed(seed, 0) < 2**31 for seed in range(500))
