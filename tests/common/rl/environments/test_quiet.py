from __future__ import annotations

import os
import subprocess
import sys
import warnings

import gymnasium
import pytest

from common.rl.environments.quiet import quiet

PLAY = """
import numpy as np
from common.rl.environments.make import make
from common.settings.sections import Environment
for section in (
    Environment(id="FlappyBird-v0", observation="frames"),
    Environment(id="CartPole-v0", observation="frames"),
    Environment(id="ALE/Pong-v5"),
    Environment(id="ale_py:PongNoFrameskip-v4", options={"obs_type": "ram"}),
):
    environments = make(section, num_envs=1, seed=0)
    environments.reset()
    environments.step(np.zeros(1, np.int64))
    environments.close()
"""


def test_a_process_that_plays_prints_nothing() -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("SDL_", "PYGAME_"))}
    done = subprocess.run([sys.executable, "-c", PLAY], capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_prints_go_to_stderr_and_warnings_nowhere(capsys: pytest.CaptureFixture[str]) -> None:
    with quiet():
        print("welcome to my package")
        warnings.warn("old", DeprecationWarning, stacklevel=1)
        gymnasium.logger.warn("advice")
    assert capsys.readouterr() == ("", "welcome to my package\n")
    print("results")
    assert capsys.readouterr().out == "results\n"
