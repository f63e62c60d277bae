"""tianshou's PPO, with the settings of its own examples (test_ppo_discrete, atari_ppo).

FlappyBird-v0 is not among the examples: it uses the settings for CartPole-v1. The copies are stepped in one process, as
in the first example. The loop is what the documentation calls training without a trainer: collect, update, empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import torch
from tianshou.algorithm import PPO
from tianshou.algorithm.algorithm_base import policy_within_training_step
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory, LRSchedulerFactoryLinear
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.env.atari.atari_network import DQNet
from tianshou.env.atari.atari_wrapper import wrap_deepmind
from tianshou.utils.net.common import ActorCritic, Net
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic

from benchmarks.peer_drivers.driver import LONGEST_EPISODE, Order, Progress, options, read_order, register


@dataclass(frozen=True)
class Settings:
    copies: int = 20
    learning_rate: float = 3e-4
    collected: int = 2000
    """Steps of all copies together between updates."""
    batch: int = 64
    repeats: int = 10
    entropy_coef: float = 0.0
    normalized_advantages: bool = False


GYM = Settings()
ATARI = Settings(10, 5e-5, 1000, 256, 4, 0.01, normalized_advantages=True)
ATARI_FRAMES, ATARI_EPOCHS = 100_000, 100
"""Frames of an epoch, and the number of epochs over which the learning rate falls to 0."""


def main() -> None:
    order = read_order()
    torch.set_num_threads(order.threads)
    np.random.seed(order.seed)
    torch.manual_seed(order.seed)
    register()
    settings = ATARI if order.environment.startswith("ALE/") else GYM
    environments = make(order, settings.copies, order.seed)
    algorithm = build(order, settings)
    progress = Progress(order)
    collector = Collector(algorithm, environments, VectorReplayBuffer(20_000, settings.copies))
    collector.reset()
    progress.begin()
    while not progress.over():
        with policy_within_training_step(algorithm.policy):
            found = collector.collect(n_step=settings.collected)
            progress.frames += found.n_collected_steps
            for one in found.returns:
                progress.episode(float(one))
            if not progress.over():
                algorithm.update(buffer=collector.buffer, batch_size=settings.batch, repeat=settings.repeats)
        collector.reset_buffer(keep_statistics=True)
    player = Collector(algorithm, make(order, 1, order.seed + 1000, LONGEST_EPISODE))
    player.reset()
    algorithm.eval()
    played = player.collect(n_episode=order.episodes).returns
    progress.report(["tianshou"], [float(one) for one in played])


def build(order: Order, settings: Settings) -> Any:
    probe = make_one(order.environment)
    actions = int(probe.action_space.n)
    shape = probe.observation_space.shape
    schedule = None
    if settings is ATARI:
        body = DQNet(*shape, action_shape=actions, features_only=True, output_dim_added_layer=512)
        schedule = LRSchedulerFactoryLinear(ATARI_EPOCHS, ATARI_FRAMES, settings.collected)
    else:
        body = Net(state_shape=shape, hidden_sizes=[64, 64])
    actor = DiscreteActor(preprocess_net=body, action_shape=actions, softmax_output=settings is GYM)
    critic = DiscreteCritic(preprocess_net=body)
    if settings is GYM:
        for module in ActorCritic(actor, critic).modules():
            if isinstance(module, torch.nn.Linear):
                torch.nn.init.orthogonal_(module.weight)
                torch.nn.init.zeros_(module.bias)
    optimizer = AdamOptimizerFactory(lr=settings.learning_rate)
    if schedule is not None:
        optimizer = optimizer.with_lr_scheduler_factory(schedule)
    policy = DiscreteActorPolicy(
        actor=actor,
        dist_fn=torch.distributions.Categorical if settings is GYM else categorical,
        action_space=probe.action_space,
        deterministic_eval=True,
    )
    return PPO(
        policy=policy,
        critic=critic,
        optim=optimizer,
        gamma=0.99,
        gae_lambda=0.95,
        max_grad_norm=0.5,
        eps_clip=0.2,
        vf_coef=0.5,
        ent_coef=settings.entropy_coef,
        advantage_normalization=settings.normalized_advantages,
    )


def categorical(logits: torch.Tensor) -> torch.distributions.Categorical:
    return torch.distributions.Categorical(logits=logits)


def make(order: Order, copies: int, seed: int, longest: int | None = None) -> Any:
    vector = DummyVectorEnv([lambda: make_one(order.environment, longest) for _ in range(copies)])
    vector.seed(seed)
    return vector


def make_one(name: str, longest: int | None = None) -> Any:
    if name.startswith("ALE/"):
        return wrap_deepmind(gymnasium.make(name, frameskip=1))
    limit = None if name == "CartPole-v1" else longest
    return gymnasium.make(name, max_episode_steps=limit, **options(name))


if __name__ == "__main__":
    main()
