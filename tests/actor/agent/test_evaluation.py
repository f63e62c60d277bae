from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from actor.agent import agent
from actor.agent.evaluation import evaluate, play_episodes
from actor.agent.trained_agent import TrainedAgent
from common.errors import ConfigurationError, UnavailableError
from common.rl.environments.base import Environments, Step
from common.rl.episode_statistics import ReturnStatistics, return_statistics

MakeRun = Callable[..., Path]
FOR_EVER = 10**9


class Scripted(Environments):
    """Each episode takes the next of its copy's lengths, over and over; every step is worth 1, the dummy steps 1000."""

    def __init__(self, lengths: list[list[int]], truncates: bool = False) -> None:
        self.count = len(lengths)
        self.seeds: list[int | None] = []
        self.steps = 0
        self._lengths, self._truncates = lengths, truncates
        self._episode = np.zeros(self.count, np.int64)
        self._step, self._over = np.zeros(self.count, np.int64), np.zeros(self.count, np.bool_)

    def reset(self, seed: int | None = None) -> NDArray[Any]:
        self.seeds.append(seed)
        self._episode[:] += self._step > 0
        self._step[:], self._over[:] = 0, False
        return self._step.copy()

    def step(self, actions: NDArray[np.int64]) -> Step:
        self.steps += 1
        assert actions.tolist() == self._step.tolist()
        dummy = self._over
        self._step = np.where(dummy, 0, self._step + 1)
        goals = [lengths[episode % len(lengths)] for lengths, episode in zip(self._lengths, self._episode, strict=True)]
        self._over = ~dummy & (self._step == goals)
        self._episode += self._over
        nothing = np.zeros(self.count, np.bool_)
        ends = (nothing, self._over) if self._truncates else (self._over, nothing)
        return Step(self._step.copy(), np.where(dummy, 1000.0, 1.0).astype(np.float32), *ends)

    def render(self) -> NDArray[np.uint8]:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class Echo(TrainedAgent):
    """Its actions are its observations, which `Scripted` checks; it counts the steps of each copy's episode itself."""

    def __init__(self, environments: Environments) -> None:
        self.environments = environments

    def begin(self) -> None:
        self._seen: NDArray[np.int64] | None = None

    def act(self, observations: NDArray[Any]) -> NDArray[np.int64]:
        if self._seen is None:
            self._seen = np.zeros(len(observations), np.int64)
        assert observations.tolist() == self._seen.tolist(), "what is remembered is of this episode, and all of it"
        self._seen += 1
        return observations

    def keep(self, valid: NDArray[np.bool_]) -> None:
        assert self._seen is not None
        self._seen[~valid] = 0


def played(
    lengths: list[list[int]], episodes: int, max_steps: int = 1000, **keywords: Any
) -> list[tuple[float, int, bool]]:
    return play_episodes(Echo(Scripted(lengths, **keywords)), episodes=episodes, max_steps=max_steps, seeds=count(5))


def test_short_episodes_are_not_favoured() -> None:
    """Of four episodes on two copies each plays two, though the first could have played all of them before."""
    assert Counter(played([[1], [50]], episodes=4)) == {(1.0, 1, False): 2, (50.0, 50, False): 2}


@given(
    lengths=st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=3), min_size=1, max_size=5),
    episodes=st.integers(1, 20),
)
def test_every_copy_plays_its_share_in_order(lengths: list[list[int]], episodes: int) -> None:
    expected: Counter[tuple[float, int, bool]] = Counter()
    for copy, own in enumerate(lengths):
        share = episodes // len(lengths) + (copy < episodes % len(lengths))
        expected.update((float(own[n % len(own)]), own[n % len(own)], False) for n in range(share))
    assert Counter(played(lengths, episodes)) == expected


def test_an_end_by_the_environments_own_limit_is_not_capped() -> None:
    assert played([[10]], episodes=1, max_steps=10, truncates=True) == [(10.0, 10, False)]


def test_endless_episodes_are_capped_and_the_rest_is_shared_out_anew() -> None:
    environments = Scripted([[3, FOR_EVER], [4]])
    result = play_episodes(Echo(environments), episodes=8, max_steps=20, seeds=count(5))
    assert len(result) == 8
    # First 3 and the cap on one copy, 4 four times on the other; then two episodes are left, one for each.
    assert Counter(result) == {(3.0, 3, False): 2, (20.0, 20, True): 1, (4.0, 4, False): 5}
    assert environments.seeds == [5, 6]


def test_a_copy_that_has_played_its_share_is_not_capped() -> None:
    assert Counter(played([[2, FOR_EVER], [9]], episodes=3, max_steps=12)) == {
        (2.0, 2, False): 1,
        (12.0, 12, True): 1,
        (9.0, 9, False): 1,
    }


def test_play_ends_with_the_last_episode() -> None:
    environments = Scripted([[7], [3]])
    play_episodes(Echo(environments), episodes=2, max_steps=100, seeds=count())
    assert environments.steps == 7


def test_evaluate(trained_run: MakeRun) -> None:
    looks: list[int] = []
    result = evaluate(trained_run(), episodes=20, seed=3, looked=looks.append)
    assert looks == sorted(looks)
    assert looks[-1] == 20
    assert (result.env, result.version, result.sampled, result.seed) == ("CartPole-v1", 1, False, 3)
    assert (result.episodes, result.capped, len(result.returns)) == (20, 0, 20)
    assert result.returns == result.lengths
    assert msgspec.convert(msgspec.structs.asdict(result), ReturnStatistics) == return_statistics(result.returns)
    assert result.length_mean == result.mean
    # Pushed to one side all the time, the pole falls within 8 to 10 steps.
    assert 8 <= result.minimum <= result.maximum <= 10


def test_a_run_by_its_name(trained_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    path = trained_run()
    monkeypatch.chdir(path.parent)
    assert evaluate(str(path), episodes=2) == evaluate(path.name, episodes=2)
    path.rename(path.parent / "runs")
    assert evaluate("last", episodes=2).episodes == 2
    with pytest.raises(ConfigurationError, match="must be 0 or more"):
        evaluate("last", seed=-1)


def test_the_same_arguments_give_the_same_result(trained_run: MakeRun) -> None:
    path = trained_run()
    results = [evaluate(path, episodes=20, sampled=True, seed=seed) for seed in (3, 3, 4)]
    assert results[0] == results[1]
    assert results[0].returns != results[2].returns


def test_no_seed_of_an_evaluation_is_an_actors(trained_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """By default an evaluation and the actors of a run both have seed 0."""
    made: list[int] = []
    genuine = agent.make_environments

    def make(*arguments: Any, seed: int, **keywords: Any) -> Environments:
        made.append(seed)
        environments = genuine(*arguments, seed=seed, **keywords)
        reset = environments.reset
        monkeypatch.setattr(environments, "reset", lambda seed: reset(made.append(seed) or seed))  # type: ignore[func-returns-value]
        return environments

    monkeypatch.setattr(agent, "make_environments", make)
    evaluate(trained_run(), episodes=2)
    assert len(made) == 2
    assert min(made) >= 2**63, "an actor's seed travels as a number of 63 bits"


@pytest.mark.parametrize(
    ("run", "sampled", "drawn"), [("false", None, False), ("true", None, True), ("true", False, False)]
)
def test_actions_are_drawn_where_the_run_says_so(
    trained_run: MakeRun, run: str, sampled: bool | None, drawn: bool
) -> None:
    path = trained_run(f"evaluation.sampled={run}")
    assert evaluate(path, episodes=1, sampled=sampled).sampled is drawn


def test_evaluate_caps(trained_run: MakeRun) -> None:
    result = evaluate(trained_run(), episodes=3, max_steps=5, checkpoint="newest")
    assert (result.version, result.capped, result.lengths) == (2, 3, [5, 5, 5])


def test_returns_are_the_environments_own(trained_run: MakeRun) -> None:
    result = evaluate(trained_run("environment.reward_scale=0.01", "environment.reward_clip=0.001"), episodes=2)
    assert result.returns == result.lengths


def test_evaluate_says_that_there_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="holds no run"):
        evaluate(tmp_path)


def test_a_return_that_is_no_number_is_told(trained_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "common/rl/environments"))
    run = trained_run("environment.id='broken_environments:NanReward-v0'")
    with pytest.raises(UnavailableError, match="NanReward-v0 gave a reward that is no finite number"):
        evaluate(run, episodes=2)
