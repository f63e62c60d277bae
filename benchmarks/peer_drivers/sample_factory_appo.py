"""sample-factory's APPO, with the settings of its own examples (sf_examples: train_gym_env's command, atari_params).

FlappyBird-v0 is not among the examples: it uses CartPole-v1's command, with unscaled rewards. There are two workers for
two cores, where the examples have one per logical core, or eight; each has as many copies as in the examples.
"""

from __future__ import annotations

import copy
import os
import sys
import tempfile
from typing import Any

import gymnasium
from sample_factory.algo.utils.misc import EPISODIC, LEARNER_ENV_STEPS, SAMPLES_COLLECTED, ExperimentStatus
from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
from sample_factory.enjoy import enjoy
from sample_factory.envs.env_utils import register_env
from sample_factory.train import make_runner
from sf_examples.atari.atari_params import atari_override_defaults
from sf_examples.atari.atari_utils import ATARI_ENVS, AtariSpec, make_atari_env

from benchmarks.peer_drivers.driver import LONGEST_EPISODE, Order, Progress, options, read_order, register

WORKERS = 2
SKIP = 4
GYM = {
    "num_envs_per_worker": 20,
    "policy_workers_per_policy": 2,
    "use_rnn": False,
    "recurrence": 1,
    "with_vtrace": False,
    "batch_size": 512,
}
SETTINGS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {**GYM, "reward_scale": 0.1},
    "FlappyBird-v0": GYM,
    "ALE/Pong-v5": {"num_envs_per_worker": 4},
}
PONG = "PongOneFrame-v5"
"""Name of ALE/Pong-v5 without repeated actions, because the example's own wrappers repeat them."""


def main() -> None:
    order = read_order()
    register()
    register_env(order.environment, make)
    with tempfile.TemporaryDirectory(prefix="a3cd-peer-") as folder:
        progress = train(order, folder)
        os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"  # because its own checkpoint holds numpy's numbers
        _, played = enjoy(configuration(order, folder, evaluation=True))
    progress.report(["sample-factory"], [float(played)])


def train(order: Order, folder: str) -> Progress:
    _, runner = make_runner(configuration(order, folder))
    progress = Progress(order)
    skipped = SKIP if order.environment.startswith("ALE/") else 1

    def heard(runner: Any, message: dict[str, Any], _: int) -> None:
        """Handle a message. Training is taken to begin with the first one, a moment after the first frames."""
        if not progress.begun:
            progress.begin()
        if EPISODIC in message:
            progress.episode(float(message[EPISODIC]["reward"]))
        progress.frames = message.get(LEARNER_ENV_STEPS, skipped * progress.frames) // skipped
        if progress.over():
            runner._stop_training()

    for kind in (EPISODIC, SAMPLES_COLLECTED, LEARNER_ENV_STEPS):
        runner.policy_msg_handlers[kind].append(heard)
    if runner.init() != ExperimentStatus.SUCCESS:
        sys.exit("sample-factory refused its settings")
    runner.run()
    return progress


def configuration(order: Order, folder: str, *, evaluation: bool = False) -> Any:
    words = ["--algo=APPO", f"--env={order.environment}", f"--train_dir={folder}", "--experiment=peer"]
    words += [f"--seed={order.seed}", f"--num_workers={WORKERS}", "--device=cpu"]
    words += [f"--{name}={value}" for name, value in SETTINGS[order.environment].items()]
    if evaluation:
        words += [f"--max_num_episodes={order.episodes}", "--no_render", "--eval_deterministic=True"]
    parser, _ = parse_sf_args(words, evaluation)
    if order.environment.startswith("ALE/"):
        atari_override_defaults(order.environment, parser)
    return parse_full_cfg(parser, words)


def make(name: str, cfg: Any = None, env_config: Any = None, render_mode: str | None = None) -> Any:
    """Make an environment; sample-factory calls this in each of its processes."""
    register()
    if not name.startswith("ALE/"):
        limit = None if name == "CartPole-v1" else LONGEST_EPISODE  # CartPole has its own, shorter limit
        return gymnasium.make(name, max_episode_steps=limit, render_mode=render_mode, **options(name))
    if PONG not in gymnasium.registry:
        spec = copy.deepcopy(gymnasium.spec(name))
        spec.kwargs["frameskip"] = 1
        gymnasium.registry[PONG] = spec
        ATARI_ENVS.append(AtariSpec(name, PONG))
    return make_atari_env(name, cfg, env_config, render_mode)


if __name__ == "__main__":
    main()
