from __future__ import annotations

from pathlib import Path

import pytest

from common.errors import ConfigurationError
from simulation.settings import Costs, Host, Incident, Link, Simulation, override, read

WORLD = """
learner_mbit = 1000.0

[costs]
optimizer_step = 0.01

[[hosts]]
name = "lab"
slots = 4
speed = 0.5
local = false
link = { delay = 0.002, mbit = 100.0 }

[[incidents]]
at = 10.0
kind = "crash"
who = "lab-0"
"""

NESTED = f"costs = {'[' * 5000}"


def test_a_file_says_how_long_things_take_and_what_goes_wrong(tmp_path: Path) -> None:
    file = tmp_path / "world.toml"
    file.write_text(WORLD)
    assert read(file) == Simulation(
        learner_mbit=1000.0,
        costs=Costs(optimizer_step=0.01),
        hosts=[Host(name="lab", slots=4, speed=0.5, local=False, link=Link(delay=0.002, mbit=100.0))],
        incidents=[Incident(at=10.0, kind="crash", who="lab-0")],
    )


@pytest.mark.parametrize(
    "text", ["costs = 3", "[costs]\nno = 1", "[[incidents]]\nat = 1.0\nkind = 'war'", "= =", NESTED, "\x80"]
)
def test_a_wrong_file_is_refused_with_its_name(tmp_path: Path, text: str) -> None:
    file = tmp_path / "world.toml"
    file.write_text(text, encoding="latin-1")
    with pytest.raises(ConfigurationError, match=r"world\.toml"):
        read(file)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        read(tmp_path / "none.toml")


def test_single_values_come_from_the_command_line() -> None:
    world = override(Simulation(), ["costs.optimizer_step=0.5", "learner_mbit=10"])
    assert (world.costs.optimizer_step, world.learner_mbit) == (0.5, 10.0)


@pytest.mark.parametrize(
    "wrong",
    [
        *("costs.no=1", "costs.gradient", "costs.gradient=", "costs.gradient=-1"),
        *("hosts.x=1", "hosts.0.speed=2", "costs.gradient.x=1", NESTED),
    ],
)
def test_a_wrong_value_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigurationError):
        override(Simulation(), [wrong])
