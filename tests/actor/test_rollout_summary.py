from actor.rollout_summary import RolloutSummary
from common.rl.episode import Episode


def test_rollouts_add_up_statistics_are_means_and_the_version_is_the_oldest() -> None:
    summary = RolloutSummary()
    first = RolloutSummary(version=5, steps=10, emulator_frames=40, count=1, statistics={"x": 1.0})
    summary.add(first)
    episodes, moments = [Episode(1.0, 2, 3.0)], [(20, [0.5], [1.0])]
    more = RolloutSummary(3, 2, 8, 3, episodes, {"x": 5.0}, moments)
    summary.add(more)
    assert summary == RolloutSummary(3, 12, 48, 4, episodes, {"x": 4.0}, moments)
    summary.add(RolloutSummary(version=4, count=1, moments=moments))
    assert (summary.version, summary.moments) == (3, 2 * moments), "the learner merges moments"


def test_only_those_with_statistics_name_them_in_the_header() -> None:
    assert "statistics" not in RolloutSummary(count=1).fields()
    fields = RolloutSummary(version=5, count=1, statistics={"x": 1.0}).fields()
    assert (fields["version"], fields["statistics"]) == (5, {"x": 1.0})
