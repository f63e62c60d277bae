"""What is done with a trained agent, and the commands that start nothing."""

from __future__ import annotations

import pytest
from PIL import Image

from common.errors import EXIT_CONFIGURATION
from tests.helpers.daemons import Daemons
from tests.system.conftest import Training

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]


def test_the_agent_is_evaluated(daemons: Daemons, training: Training) -> None:
    result = daemons.run("evaluate", training.run_dir, "--episodes", 5, "--json").result
    assert (result["env"], result["episodes"]) == ("CartPole-v1", 5)
    assert result["max_steps"] == 27_000
    assert result["minimum"] <= result["mean"] <= result["maximum"] <= 500


def test_the_agent_is_recorded(daemons: Daemons, training: Training) -> None:
    film = daemons.folder / "agent.gif"
    assert daemons.run("record", training.run_dir, "--out", film, "--max-steps", 50).printed == f"{film}\n"
    with Image.open(film) as picture:
        assert picture.format == "GIF"
        assert getattr(picture, "n_frames", 1) > 10


def test_a_preset_is_a_config(daemons: Daemons) -> None:
    assert "CartPole-v1" in daemons.run("presets").printed
    config = daemons.config(daemons.run("presets", "show", "CartPole-v1").printed)
    assert "good: CartPole-v1, a3c" in daemons.run("check-config", config).printed
    config.write_text("seed = -1")
    assert "seed = -1" in daemons.run("check-config", config, code=EXIT_CONFIGURATION).errors[0]


def test_the_doctor_looks_at_this_machine(daemons: Daemons) -> None:
    shown = daemons.run("doctor", "--port", 40_404).printed
    for text in ("torch", "gymnasium", "python"):
        assert text in shown.lower()
