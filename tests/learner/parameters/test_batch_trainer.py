"""The learner's own gradients against those that actors would have sent, and what is not learnt from."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import pytest
import torch

import learner.parameters.batch_trainer
from common.rl.algorithms import ppo
from common.rl.algorithms.losses import Floats
from common.rl.algorithms.statistics import Statistics
from common.rl.distributions.registry import distribution
from common.rl.gradient import gradient
from common.rl.networks.model import TorchModel
from common.rl.rollout import Rollout, join
from common.settings.sections import Algorithm, Optimizer
from common.wire.codecs.registry import make as make_codec
from learner.parameters.batch_trainer import NOT_FINITE, BatchTrainer
from learner.parameters.gradient_sum import GradientSum
from learner.parameters.optimizers import make as make_optimizer
from learner.parameters.step_result import StepResult
from learner.parameters.weights import Weights
from tests.helpers.rollouts import BOX, COPIES, STEPS, make

PLAIN = Algorithm(max_grad_norm=0.0)


def rollouts(count: int) -> tuple[TorchModel, list[Rollout]]:
    """All steps valid, so that a mean over all is the mean of the means."""
    model, _ = make(BOX)
    parts = [make(BOX, seed)[1] for seed in range(count)]
    return model, [dataclasses.replace(part, valid=np.ones_like(part.valid)) for part in parts]


def trainer_of(model: TorchModel, section: Algorithm = PLAIN, kind: str = "sgd", average: bool = False) -> BatchTrainer:
    return BatchTrainer(model, weights_of(model.flat.vector, kind), section, average=average)


def weights_of(vector: torch.Tensor, kind: str = "sgd") -> Weights:
    optimizer = make_optimizer(Optimizer(kind=kind, learning_rate=0.01), vector, 0)  # type: ignore[arg-type]
    return Weights(optimizer, np.zeros(0, np.float32))


@pytest.mark.parametrize("kind", ["sgd", "adam"])
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("weights", [(1.0, 1.0, 1.0), (0.5, 0.5), (1.0, 0.25, 0.7)])
def test_it_steps_as_with_the_gradients_that_actors_compute(
    kind: str, average: bool, weights: tuple[float, ...]
) -> None:
    model, parts = rollouts(len(weights))
    there, _ = make(BOX)  # the actors' model, of the same parameters
    size, scale = model.flat.size, sum(weights) / len(weights)
    vector = there.flat.vector.clone()
    store = GradientSum(weights_of(vector, kind), average=average)
    trainer = trainer_of(model, kind=kind, average=average)
    for rollout, weight in zip(parts, weights, strict=True):
        gradient(there, rollout, PLAIN)
        store.add(make_codec("none", size).encode(there.gradient), "none", weight=weight)
        trainer.add(rollout, weight=weight)
    store.step(scale=scale, frames=0)
    assert trainer.step(scale=scale, frames=0).statistics.keys() == {
        *("policy_loss", "value_loss", "entropy", "gradient_norm", "ratio", "kl", "explained_variance", "clip_fraction")
    }
    tolerance = 1e-6 if kind == "sgd" else 1e-4  # Adam divides by what is small
    torch.testing.assert_close(model.flat.vector, vector, rtol=1e-3, atol=tolerance)
    assert not torch.equal(model.flat.vector, there.flat.vector)


@pytest.mark.parametrize("kind", ["a3c", "ppo"])
def test_a_part_of_an_actors_environments_makes_a_step_of_its_part(kind: str) -> None:
    section = Algorithm(kind=kind, max_grad_norm=0.0, epochs=1, minibatches=1)  # type: ignore[arg-type]
    moved = []
    for count in (1, 0.25):
        model, (rollout,) = rollouts(1)
        before = model.flat.vector.clone()
        trainer = trainer_of(model, section)
        trainer.add(rollout, count=count)
        trainer.step(scale=1.0, frames=0)
        moved.append(model.flat.vector - before)
    torch.testing.assert_close(moved[1], 0.25 * moved[0], rtol=1e-2, atol=1e-6)


@pytest.mark.parametrize("kind", ["a3c", "ppo"])
@pytest.mark.parametrize("of", [1, 4])
def test_a_step_on_n_rollouts_is_as_long_as_n_clipped_gradients_of_actors_at_most(kind: str, of: int) -> None:
    """The gradient of a step, the mean of its rollouts, is clipped; actors clip that of each rollout."""
    longest = 1e-3
    section = Algorithm(kind=kind, max_grad_norm=longest, epochs=1, minibatches=1)  # type: ignore[arg-type]
    model, parts = rollouts(of)
    before, trainer = model.flat.vector.clone(), trainer_of(model, section)
    for rollout in parts:
        trainer.add(rollout)
    told = trainer.step(scale=1.0, frames=0).statistics["gradient_norm"]
    assert told > 0.05, "before it was clipped"
    assert float((model.flat.vector - before).norm()) == pytest.approx(0.01 * of * longest, rel=1e-2)


@pytest.mark.parametrize("kind", ["a3c", "ppo"])
def test_steps_shrink_with_the_frames_where_they_are_annealed(kind: str) -> None:
    section = Algorithm(kind=kind, max_grad_norm=0.0, epochs=1, minibatches=1)  # type: ignore[arg-type]
    moved = []
    for frames in (0, 750, 1000):
        model, (rollout,) = rollouts(1)
        before = model.flat.vector.clone()
        optimizer = make_optimizer(Optimizer(kind="sgd", learning_rate=0.01, anneal="linear"), model.flat.vector, 1000)
        trainer = BatchTrainer(model, Weights(optimizer, np.zeros(0, np.float32)), section)
        trainer.add(rollout)
        trainer.step(scale=1.0, frames=frames)
        moved.append(model.flat.vector - before)
    torch.testing.assert_close(moved[1], 0.25 * moved[0], rtol=1e-2, atol=1e-6)
    assert not moved[2].any() and moved[0].any()


def test_the_vector_that_is_stepped_is_the_network_s() -> None:
    model, parts = rollouts(1)
    trainer = trainer_of(model)
    before, outputs = model.flat.vector.clone(), model.network(torch.from_numpy(parts[0].observations[0]))[0]
    trainer.add(parts[0])
    trainer.step(scale=1.0, frames=0)
    assert not torch.equal(model.flat.vector, before)
    assert trainer.weights.vector.data_ptr() == next(model.network.parameters()).data_ptr()
    assert not torch.equal(model.network(torch.from_numpy(parts[0].observations[0]))[0], outputs)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """As a learner computes; several of torch's wait for each other longer than such small products take."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
def test_ppo_learns_from_minibatches_of_recurrent_rollouts() -> None:
    """Reward is for the action that the first observation of an episode asks for: the state alone tells it later."""
    section = Algorithm(kind="ppo", max_grad_norm=1.0, gamma=0.0, entropy_coef=0.0, epochs=4, minibatches=3)
    model, _ = make(BOX, lstm=8, algorithm="ppo")
    trainer = trainer_of(model, section, kind="adam")
    generator, rng = torch.Generator().manual_seed(0), np.random.default_rng(0)
    first, last = (_recalled(trainer, generator, rng, batches) for batches in (1, 25))
    assert first < 0.6
    assert last > 0.9


def _recalled(trainer: BatchTrainer, generator: torch.Generator, rng: np.random.Generator, batches: int) -> float:
    """The share of the last batch's actions that were right; each batch is of two rollouts, joined."""
    share = 0.0
    for _ in range(batches):
        parts = [recall(trainer.model, generator, rng) for _ in range(2)]
        for part in parts:
            trainer.add(part)
        assert trainer.step(scale=1.0, frames=0).statistics
        share = float(join(parts).rewards.mean())
    return share


def recall(model: TorchModel, generator: torch.Generator, rng: np.random.Generator) -> Rollout:
    """4 steps of 16 environments, played by the model; only the first observation says which of 3 actions is right."""
    steps, copies = 4, 16
    first = state = torch.zeros(copies, model.network.state_size)
    wanted = torch.randint(0, 3, (copies,), generator=generator)
    observations = torch.zeros(steps + 1, copies, *BOX.shape)
    observations[0, torch.arange(copies), wanted] = 1.0
    shape = (steps, copies)
    actions, log_probs = torch.zeros(shape, dtype=torch.int64), torch.zeros(shape)
    for t in range(steps):
        outputs, state = model.network.step(observations[t], state)
        drawn, probabilities = distribution(model.network.action, outputs.numpy()[:, :-1]).sample(rng)
        actions[t], log_probs[t] = torch.from_numpy(drawn), torch.from_numpy(probabilities)
    return Rollout(
        observations=observations.numpy(),
        actions=actions.numpy(),
        rewards=(actions == wanted).float().numpy(),
        terminated=np.zeros(shape, np.bool_),
        valid=np.ones(shape, np.bool_),
        behaviour_log_probs=log_probs.numpy(),
        state=first.numpy(),
    )


def test_without_a_rollout_nothing_happens() -> None:
    model, _ = rollouts(0)
    trainer, before = trainer_of(model), model.flat.vector.clone()
    assert trainer.step(scale=1.0, frames=0) == StepResult()
    assert torch.equal(model.flat.vector, before)


def with_nan(rollout: Rollout) -> Rollout:
    return dataclasses.replace(rollout, rewards=rollout.rewards * np.float32(np.nan))


def test_a_gradient_that_is_not_finite_leaves_the_weights_alone() -> None:
    model, (bad, good) = rollouts(2)
    trainer, before = trainer_of(model), model.flat.vector.clone()
    trainer.add(with_nan(bad))
    assert trainer.step(scale=1.0, frames=0) == StepResult({}, {0: NOT_FINITE})
    assert torch.equal(model.flat.vector, before)
    trainer.add(good)
    assert trainer.step(scale=1.0, frames=0).left_out == {}
    assert trainer.weights.finite
    assert not torch.equal(model.flat.vector, before)


@pytest.mark.parametrize("kind", ["a3c", "ppo"])
def test_one_bad_rollout_is_left_out_by_its_number_and_the_others_are_learnt_from(kind: str) -> None:
    section = Algorithm(kind=kind, max_grad_norm=0.0)  # type: ignore[arg-type]
    model, (first, bad, last) = rollouts(3)
    there, _ = make(BOX)
    spoilt, clean = trainer_of(model, section), trainer_of(there, section)
    for rollout, weight in ((first, 1.0), (with_nan(bad), 0.5), (last, 0.25)):
        spoilt.add(rollout, weight=weight)
    result = spoilt.step(scale=1.0, frames=0)
    assert (result.left_out, result.to_blame) == ({1: NOT_FINITE}, True)
    for rollout, weight in ((first, 1.0), (last, 0.25)):
        clean.add(rollout, weight=weight)
    assert result.statistics.keys() == clean.step(scale=1.0, frames=0).statistics.keys()
    if kind == "a3c":  # ppo draws its minibatches anew
        torch.testing.assert_close(model.flat.vector, there.flat.vector)
    assert trainer_of(model).weights.finite


def test_where_no_rollout_has_a_finite_gradient_none_of_them_is_to_blame() -> None:
    model, parts = rollouts(2)
    trainer = trainer_of(model)
    for rollout in parts:
        trainer.add(with_nan(rollout))
    assert trainer.step(scale=1.0, frames=0) == StepResult({}, {0: NOT_FINITE, 1: NOT_FINITE}, to_blame=False)


def test_ppo_goes_over_a_batch_in_epochs_and_minibatches(monkeypatch: pytest.MonkeyPatch) -> None:
    model, parts = rollouts(2)
    section = Algorithm(kind="ppo", epochs=3, minibatches=4, max_grad_norm=0.0)
    trainer, there = trainer_of(model, section), make(BOX)[0]
    optimizer = make_optimizer(Optimizer(kind="sgd", learning_rate=0.01), there.flat.vector, 0)
    seen: list[list[float]] = []

    def noted(model: TorchModel, rollout: Rollout, section: Algorithm, weights: Floats | None) -> Statistics:
        statistics = gradient(model, rollout, section, weights)
        seen.append(rollout.rewards.ravel().tolist())
        gradient(there, rollout, section, weights)  # and a plain loop over the same parts
        optimizer.step(there.flat.gradient * 2**0.5, scale=0.5 * 2**0.5, frames=0)
        return statistics

    monkeypatch.setattr(learner.parameters.batch_trainer, "gradient", noted)
    for rollout in parts:
        trainer.add(rollout)
    learnt = trainer.step(scale=0.5, frames=0)
    everyone = sorted(join(parts).rewards.ravel().tolist())
    assert len(seen) == 12
    for epoch in (seen[:4], seen[4:8], seen[8:]):
        assert sorted(reward for part in epoch for reward in part) == everyone
        assert [len(part) for part in epoch] == [STEPS * COPIES // 2] * 4
    assert seen[:4] != seen[4:8], "shuffled anew"
    torch.testing.assert_close(model.flat.vector, there.flat.vector)
    assert learnt.statistics["kl"] > 0


def test_ppo_s_minibatches_learn_from_what_was_estimated_before_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    model, parts = rollouts(2)
    section = Algorithm(kind="ppo", epochs=2, minibatches=3, gae_lambda=0.8)
    batch = ppo.steps(model.outputs(join(parts)), join(parts), gamma=section.gamma, gae_lambda=0.8)
    assert batch.targets is not None and batch.advantages is not None
    expected = sorted(zip(batch.rewards.ravel(), batch.targets.ravel(), batch.advantages.ravel(), strict=True))
    seen: list[tuple[float, float, float]] = []

    def noted(model: TorchModel, part: Rollout, section: Algorithm, weights: Floats | None) -> Statistics:
        assert part.targets is not None and part.advantages is not None
        seen.extend(zip(part.rewards.ravel(), part.targets.ravel(), part.advantages.ravel(), strict=True))
        return gradient(model, part, section, weights)

    monkeypatch.setattr(learner.parameters.batch_trainer, "gradient", noted)
    trainer = trainer_of(model, section)
    for rollout in parts:
        trainer.add(rollout)
    trainer.step(scale=1.0, frames=0)
    assert sorted(seen) == sorted(expected * 2)


def test_a_weight_is_that_of_all_steps_of_its_rollout() -> None:
    """With one minibatch of all steps ppo's gradient is that of the whole rollout, weighted by environments."""
    section = Algorithm(kind="ppo", epochs=1, minibatches=1, max_grad_norm=0.0)
    model, parts = rollouts(2)
    there, _ = make(BOX)
    trainer = trainer_of(model, section)
    for rollout, weight in zip(parts, (1.0, 0.5), strict=True):
        trainer.add(rollout, weight=weight)
    trainer.step(scale=1.0, frames=0)
    gradient(there, join(parts), section, np.repeat(np.float32([4 / 3, 2 / 3]), COPIES))
    optimizer = make_optimizer(Optimizer(kind="sgd", learning_rate=0.01), there.flat.vector, 0)
    optimizer.step(there.flat.gradient * 2**0.5, scale=2**0.5, frames=0)
    torch.testing.assert_close(model.flat.vector, there.flat.vector)


def test_the_shuffling_depends_on_the_seed_and_the_frames_and_not_on_the_steps_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    section = Algorithm(kind="ppo", epochs=1, minibatches=2, max_grad_norm=0.0)
    model, parts = rollouts(1)

    def norms(seed: int, frames: int, batches: int = 1) -> list[float]:
        """Of the advantages in each minibatch of the last batch."""
        found: list[float] = []

        def noted(model: TorchModel, part: Rollout, section: Algorithm, weights: Floats | None) -> Statistics:
            found.append(float(part.rewards.sum()))
            return gradient(model, part, section, weights)

        monkeypatch.setattr(learner.parameters.batch_trainer, "gradient", noted)
        trainer = BatchTrainer(model, weights_of(model.flat.vector), section, seed=seed)
        for _ in range(batches):
            trainer.add(parts[0])
            trainer.step(scale=0.0, frames=frames)
        return found[-2:]

    assert norms(0, 20) == norms(0, 20, batches=3)
    assert len({tuple(norms(seed, frames)) for seed in range(3) for frames in (20, 40, 60)}) > 1


def test_ppo_takes_a_step_and_no_more_where_the_policy_is_too_far_from_the_one_that_acted() -> None:
    model, (rollout,) = rollouts(1)
    vectors = []
    for limit, epochs in ((1e-9, 5), (0.0, 1)):
        model, (rollout,) = rollouts(1)
        section = Algorithm(kind="ppo", epochs=epochs, minibatches=1, target_kl=limit)
        trainer = trainer_of(model, section)
        trainer.add(rollout)
        trainer.step(scale=1.0, frames=0)
        vectors.append(model.flat.vector)
    torch.testing.assert_close(vectors[0], vectors[1])  # but for the order of the shuffled steps
