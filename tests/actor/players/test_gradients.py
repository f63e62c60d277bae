from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

import actor.players.gradients
from actor.players.gradients import Work
from common.errors import CodecError, RefusedError
from common.rl.algorithms.exploration import EpsilonGreedy
from common.rl.environments.spaces import describe
from common.rl.model import build
from common.rl.networks.flat import FlatParameters
from common.rl.rewards import NonFiniteError
from common.wire.bodies.weights import WeightsFormat
from common.wire.codecs.registry import make as make_codec
from tests.helpers.environments import Scripted
from tests.helpers.run import settings_of, welcome_of

FOREVER, NO_TIME = math.inf, -math.inf
SMALL = ("network.hidden=[4]", "algorithm.rollout_length=6", "environment.num_envs=2")


def flat_of(seed: int = 0) -> FlatParameters:
    observation = describe(Scripted.observation_space)
    return build(settings_of(*SMALL, f"seed={seed}"), observation, Scripted.action).flat


SIZE = flat_of().size
FP32 = make_codec("none", SIZE)


def weights(value: float) -> bytes:
    return FP32.encode(torch.full((SIZE,), value))


@pytest.fixture
def environments(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    scripted = Scripted((3, 5), rewards=(1.0, 2.0, 4.0, 8.0, 16.0))

    def make(section: Any, **kwargs: Any) -> Scripted:
        return scripted

    monkeypatch.setattr(actor.players.gradients, "make_environments", make)
    return scripted


def work_of(*assignments: str, body: bytes | None = None, **welcome: Any) -> Work:
    settings = settings_of(*SMALL, *assignments)
    fields = {"model": flat_of().hash, "version": 10, "seed": 5} | welcome
    return Work(welcome_of(**fields), settings, body or FP32.encode(flat_of().vector))


def held(work: Work) -> float:
    """The first of the weights it holds."""
    return float(work._flat.vector[0])


def decoded(body: bytes, codec: str = "none") -> np.ndarray[Any, np.dtype[np.float32]]:
    out = torch.empty(SIZE)
    make_codec(codec, SIZE).decode(body, out)
    return out.numpy()


def test_a_harvest_says_what_was_played(environments: Scripted) -> None:
    harvest = work_of().advance(FOREVER)
    assert harvest is not None
    assert (harvest.version, harvest.steps, harvest.emulator_frames, harvest.count) == (10, 10, 40, 1)
    assert [(value, length) for value, length, _ in harvest.episodes] == [(7.0, 3), (31.0, 5)]
    assert set(harvest.statistics) == {"policy_loss", "value_loss", "entropy", "gradient_norm", "ratio", "kl"}
    assert harvest.statistics["ratio"] == pytest.approx(1.0)
    assert harvest.statistics["entropy"] == pytest.approx(math.log(3), abs=0.01)


def test_nothing_is_harvested_until_the_rollout_is_complete(environments: Scripted) -> None:
    work = work_of()
    harvests = [work.advance(NO_TIME) for _ in range(12)]
    assert [harvest is not None for harvest in harvests] == ([False] * 5 + [True]) * 2


def test_gradients_are_added_up_until_they_are_packed(environments: Scripted) -> None:
    work = work_of()
    singles = []
    for _ in range(3):
        work.advance(FOREVER)
        singles.append(decoded(work.pack()))
    summed = work_of()
    for _ in range(3):
        summed.advance(FOREVER)
    total = decoded(summed.pack())
    assert np.abs(total).max() > 0.0
    np.testing.assert_allclose(total, sum(singles), rtol=1e-4, atol=1e-6)
    assert not decoded(summed.pack()).any(), "a new sum starts"


def test_the_gradient_is_packed_by_the_codec_of_the_welcome(environments: Scripted) -> None:
    plain, packed = work_of(), work_of(codec="int8+zstd")
    plain.advance(FOREVER)
    environments.reset()
    packed.advance(FOREVER)
    expected, got = decoded(plain.pack()), decoded(packed.pack(), "int8+zstd")
    np.testing.assert_allclose(got, expected, atol=np.abs(expected).max() / 100)


def test_with_refresh_weights_are_loaded_as_they_come(environments: Scripted) -> None:
    work = work_of("algorithm.refresh=true", body=weights(0.0))
    work.advance(NO_TIME)
    work.offer(11, weights(0.25))
    for _ in range(3):
        assert work.advance(NO_TIME) is None
        assert held(work) == 0.25, "in the middle of a rollout"
    work.offer(20, weights(0.5))
    assert work.advance(NO_TIME) is None
    harvest = work.advance(NO_TIME)
    assert harvest is not None
    mean = (10 + 3 * 11 + 2 * 20) // 6
    assert (harvest.version, held(work)) == (mean, 0.5), "its version is that of the weights that acted, on average"


def test_without_correction_they_are_loaded_before_the_gradient_and_never_while_playing(environments: Scripted) -> None:
    work = work_of("algorithm.correction='none'", body=weights(0.0))
    work.advance(NO_TIME)
    work.offer(11, weights(0.25))
    for _ in range(4):
        assert work.advance(NO_TIME) is None
        assert held(work) == 0.0, "in the middle of a rollout"
    harvest = work.advance(NO_TIME)
    assert harvest is not None
    assert (harvest.version, held(work)) == (10, 0.25), "its version is that of the weights that acted"
    work.offer(12, weights(0.5))
    assert work.advance(NO_TIME) is None
    assert held(work) == 0.5, "a rollout begins with the newest"


def test_without_refresh_weights_are_loaded_between_rollouts_only(environments: Scripted) -> None:
    work = work_of("algorithm.refresh=false", body=weights(0.0))
    work.advance(NO_TIME)
    work.offer(11, weights(0.25))
    harvest = work.advance(FOREVER)
    assert harvest is not None
    assert (harvest.version, held(work)) == (10, 0.0)
    harvest = work.advance(FOREVER)
    assert harvest is not None
    assert (harvest.version, held(work)) == (11, 0.25)


def test_of_several_offers_the_last_counts(environments: Scripted) -> None:
    work = work_of(body=weights(0.0))
    for version in (11, 12, 13):
        work.offer(version, weights(version / 100))
    harvest = work.advance(FOREVER)
    assert harvest is not None
    assert (harvest.version, held(work)) == (13, pytest.approx(0.13))


def test_weights_that_do_not_decode_are_no_version(environments: Scripted) -> None:
    work = work_of("algorithm.refresh=false", body=weights(0.25))
    work.offer(11, b"cut short")
    with pytest.raises(CodecError):
        work.advance(FOREVER)
    harvest = work.advance(FOREVER)
    assert harvest is not None
    assert (harvest.version, held(work)) == (10, 0.25)


def test_halves_are_read_where_the_welcome_says_so(environments: Scripted) -> None:
    body = make_codec("fp16", SIZE).encode(torch.full((SIZE,), 0.5))
    assert held(work_of(body=body, weights_format="fp16")) == 0.5


def test_another_network_than_the_learner_s_is_refused_for_good(environments: Scripted) -> None:
    with pytest.raises(RefusedError, match=r"is not the learner's \(another\).*install the same versions"):
        work_of(model="another")
    assert environments.closed


@pytest.mark.parametrize("reward", [math.nan, math.inf])
def test_a_reward_that_is_no_number_adds_nothing_and_work_goes_on(environments: Scripted, reward: float) -> None:
    work = work_of()
    environments.rewards[1] = reward
    with pytest.raises(NonFiniteError):
        work.advance(FOREVER)
    work.restart()
    assert not decoded(work.pack()).any()
    environments.rewards[1] = 2.0
    harvest = work.advance(FOREVER)
    assert harvest is not None and harvest.steps == 10
    assert np.isfinite(decoded(work.pack())).all()


def test_a_gradient_that_is_no_number_adds_nothing(environments: Scripted) -> None:
    work = work_of()
    work.advance(FOREVER)
    before = work._sum.clone()
    work.offer(11, weights(math.nan))
    with pytest.raises(NonFiniteError, match="gradient is not finite"):
        work.advance(FOREVER)
    assert torch.equal(work._sum, before)
    work.offer(12, FP32.encode(flat_of().vector))
    work.restart()
    assert work.advance(FOREVER) is not None
    assert np.isfinite(decoded(work.pack())).all()


def test_forgetting_drops_the_sum_and_what_packing_lost(environments: Scripted) -> None:
    work = work_of("exchange.error_feedback=true", codec="int8")
    work.advance(FOREVER)
    work.pack()
    assert work._feedback is not None
    assert work._feedback.residual.any()
    work.advance(FOREVER)
    work.forget()
    assert not decoded(work.pack(), "int8").any()


def test_a_gradient_that_is_dropped_takes_along_what_packing_lost_of_it(environments: Scripted) -> None:
    work = work_of(codec="sign")
    assert work._feedback is not None, "by itself"
    residuals = []
    for number, dropped in ((1, False), (2, True), (3, False)):
        work.advance(FOREVER)
        work.pack(number)
        work.answered(number, dropped=dropped)
        work.answered(number, dropped=True)
        residuals.append(work._feedback.residual)
    assert residuals[0].any()
    assert torch.equal(residuals[0], residuals[1])
    assert not torch.equal(residuals[1], residuals[2])


def test_without_error_feedback_an_answer_changes_nothing(environments: Scripted) -> None:
    work = work_of(codec="int8")
    assert work._feedback is None
    work.advance(FOREVER)
    work.pack(1)
    work.answered(1, dropped=True)


def test_top_k_sends_the_fraction_of_the_settings(environments: Scripted) -> None:
    work = work_of("exchange.top_k=0.25", codec="top-k")
    work.advance(FOREVER)
    out = torch.empty(SIZE)
    make_codec("top-k", SIZE, 0.25).decode(work.pack(), out)
    assert out.count_nonzero() == math.ceil(SIZE / 4)


@pytest.mark.parametrize("refresh", ["false", "true"])
def test_a_rollout_begun_in_the_epoch_before_is_of_no_version_of_this_one(environments: Scripted, refresh: str) -> None:
    work = work_of(f"algorithm.refresh={refresh}")
    work.advance(NO_TIME)
    work.forget()
    work.offer(4, weights(0.0))
    first, second = work.advance(FOREVER), work.advance(FOREVER)
    assert first is not None and second is not None
    assert (first.version, second.version) == (0, 4)


def test_error_feedback_makes_up_later_for_what_was_lost(environments: Scripted) -> None:
    exact, lossy = work_of(), work_of("exchange.error_feedback=true", codec="int8")
    sums = np.zeros(SIZE), np.zeros(SIZE)
    largest = 0.0
    for work, codec, total in ((exact, "none", sums[0]), (lossy, "int8", sums[1])):
        environments.reset()
        for _ in range(20):
            work.advance(FOREVER)
            total += decoded(work.pack(), codec)
            largest = max(largest, float(np.abs(total).max()))
    assert np.abs(sums[0] - sums[1]).max() < largest / 100


def test_environments_and_actions_are_seeded_by_the_welcome(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []
    made: list[Scripted] = []

    def make(section: Any, **kwargs: Any) -> Scripted:
        asked.append(kwargs)
        made.append(Scripted((50, 50)))
        return made[-1]

    monkeypatch.setattr(actor.players.gradients, "make_environments", make)
    for seed in (5, 5, 6):
        work_of(seed=seed).advance(FOREVER)
    assert [(kwargs["num_envs"], kwargs["seed"]) for kwargs in asked] == [(2, 5), (2, 5), (2, 6)]
    taken = [np.stack(one.taken).tolist() for one in made]
    assert taken[0] == taken[1] != taken[2]


def test_closing_closes_the_environments(environments: Scripted) -> None:
    work_of().close()
    assert environments.closed


def test_a_method_of_values_takes_the_target_network_and_the_run_s_frames_with_the_weights(
    environments: Scripted,
) -> None:
    def body(value: float, target: float, frames: int) -> bytes:
        return weights(value) + weights(target) + np.float32(frames).tobytes()

    work = work_of("algorithm.kind=n-step-q", "algorithm.epsilon_frames=100", body=body(0.25, 0.5, 40))
    assert work._model.target is not None
    acting = work._collector._exploration
    assert isinstance(acting, EpsilonGreedy)
    seen = []
    for version, frames in ((10, 40), (11, 70), (12, 100)):
        work.offer(version, body(frames / 100, 0.5, frames))
        assert work.advance(NO_TIME) is None, "loaded in the middle of a rollout: there is nothing to correct"
        seen.append((held(work), float(work._model.target.flat.vector[0])))
        assert acting.epsilons == pytest.approx(acting.finals + (1 - frames / 100) * (1 - acting.finals))
    assert seen == [(pytest.approx(value), 0.5) for value in (0.4, 0.7, 1.0)]
    work.offer(13, weights(0.25))
    with pytest.raises(CodecError, match="were expected"):
        work.advance(NO_TIME)


def test_what_it_counted_goes_with_the_harvest_and_the_extras_come_with_the_weights(environments: Scripted) -> None:
    normalize = ("network.normalize=true", "environment.reward_normalize=true")
    observation = describe(Scripted.observation_space)
    model = build(settings_of(*SMALL, *normalize), observation, Scripted.action)
    form = WeightsFormat("fp32", model.flat.size, extras=5)
    work = work_of(*normalize, model=model.flat.hash, body=form.pack(model.vectors, model.extras))
    harvest = work.advance(FOREVER)
    assert harvest is not None
    ((count, means, squares),) = harvest.moments
    assert (count, len(means), len(squares)) == (harvest.steps, 3, 3)
    work.offer(11, form.pack(model.vectors, torch.arange(5.0)))
    harvest = work.advance(FOREVER)
    assert harvest is not None
    assert work._model.extras.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert len(harvest.moments) == 1


def test_without_statistics_nothing_is_counted(environments: Scripted) -> None:
    harvest = work_of().advance(FOREVER)
    assert harvest is not None
    assert harvest.moments == []
