"""stable-baselines3's PPO, with the settings of rl-baselines3-zoo (hyperparams/ppo.yml: CartPole-v1, atari).

FlappyBird-v0 is not in the zoo: it uses PPO's defaults, with eight copies as for CartPole. The copies are stepped in
one process (the zoo's and the documentation's choice for games this quick). The numbers of frames over which learning
rates decay are the zoo's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_atari_env, make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecEnv, VecFrameStack

from benchmarks.peer_drivers.driver import LONGEST_EPISODE, Order, Progress, options, read_order, register

COPIES = 8


def linear(start: float) -> Callable[[float], float]:
    """Return the zoo's `lin_`: a schedule from `start` to 0, proportional to the share of frames that are left."""
    return lambda left: left * start


SETTINGS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {
        "policy": "MlpPolicy",
        "n_steps": 32,
        "batch_size": 256,
        "gae_lambda": 0.8,
        "gamma": 0.98,
        "n_epochs": 20,
        "ent_coef": 0.0,
        "learning_rate": linear(0.001),
        "clip_range": linear(0.2),
    },
    "FlappyBird-v0": {"policy": "MlpPolicy"},
    "ALE/Pong-v5": {
        "policy": "CnnPolicy",
        "n_steps": 128,
        "n_epochs": 4,
        "batch_size": 256,
        "learning_rate": linear(2.5e-4),
        "clip_range": linear(0.1),
        "vf_coef": 0.5,
        "ent_coef": 0.01,
    },
}
FRAMES = {"CartPole-v1": 100_000, "FlappyBird-v0": 10_000_000, "ALE/Pong-v5": 10_000_000}


def main() -> None:
    order = read_order()
    torch.set_num_threads(order.threads)
    register()
    environments = make(order, COPIES, order.seed)
    model = PPO(env=environments, seed=order.seed, device="cpu", **SETTINGS[order.environment])
    progress = Progress(order)

    def after_step(local: dict[str, Any], _: dict[str, Any]) -> bool:
        progress.frames += COPIES
        for info in local["infos"]:
            if "episode" in info:
                progress.episode(info["episode"]["r"])
        return not progress.over()

    progress.begin()
    model.learn(FRAMES[order.environment], callback=after_step)
    progress.over()
    environments.close()
    playground = make(order, 1, order.seed + 1000, LONGEST_EPISODE)
    played, _ = evaluate_policy(model, playground, order.episodes, return_episode_rewards=True)
    playground.close()
    progress.report(["stable-baselines3"], played)


def make(order: Order, copies: int, seed: int, longest: int | None = None) -> VecEnv:
    if order.environment.startswith("ALE/"):
        atari = make_atari_env(order.environment, copies, seed, env_kwargs={"frameskip": 1})
        return VecFrameStack(atari, 4)
    limit = {} if longest is None or order.environment == "CartPole-v1" else {"max_episode_steps": longest}
    return make_vec_env(order.environment, copies, seed, env_kwargs={**options(order.environment), **limit})


if __name__ == "__main__":
    main()
