from actor.rollout_summary import Harvest


def test_rollouts_add_up_statistics_are_means_and_the_version_is_the_oldest() -> None:
    harvest = Harvest()
    harvest.add(Harvest(version=5, steps=10, emulator_frames=40, count=1, statistics={"x": 1.0}))
    harvest.add(
        Harvest(version=3, steps=2, emulator_frames=8, count=3, statistics={"x": 5.0}, episodes=[(1.0, 2, 3.0)])
    )
    assert (harvest.version, harvest.steps, harvest.emulator_frames, harvest.count) == (3, 12, 48, 4)
    assert harvest.statistics == {"x": 4.0}
    assert harvest.episodes == [(1.0, 2, 3.0)]
