from tests.helpers.run import settings_of, spec_of


def test_actors_of_neighbouring_runs_share_no_seed() -> None:
    specs = [spec_of(settings_of(f"seed={seed}")) for seed in range(3)]
    assert len({spec.actor_seed(ordinal) for spec in specs for ordinal in range(1000)}) == 3000
