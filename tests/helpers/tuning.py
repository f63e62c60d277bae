"""Studies of fake trainings, which have a curve and end when the test says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from common.run import presets
from common.settings.sections import Settings
from common.settings.toml import override
from deploy.cli.tune.plan import Plan
from deploy.cli.tune.space import parse
from deploy.cli.tune.training import Training

ONE = ("optimizer.learning_rate=1e-4..1e-2,log",)


def plan(
    env: str = "CartPole-v1",
    *,
    searched: tuple[str, ...] = ONE,
    algorithm: str | None = None,
    assignments: tuple[str, ...] = (),
    **changed: Any,
) -> Plan:
    """Returns the plan of a study that searches only `searched`; `changed`: options of `Plan.of`."""
    settings = override(presets.for_environment(env, algorithm), assignments)
    usual: dict[str, Any] = {"frames": 1000, "seconds": None, "seeds": 1, "score": None, "simulate": False}
    return Plan.of(env, settings, [parse(text, settings) for text in searched], **usual | changed)


class FakeTraining:
    """A fake training, whose return is proportional to its learning rate; it ends when told to."""

    def __init__(self, settings: Settings, run_dir: Path) -> None:
        self.settings = settings
        self.run_dir = run_dir
        self.exit_code: int | None = None
        self.last_line = "a reason"
        self.played = 0
        self.asked = self.ended = False

    def rows(self) -> list[dict[str, Any]]:
        value = 1000 * self.settings.optimizer.learning_rate
        return [{"frames": at, "mean_return": value} for at in range(100, self.played + 1, 100)]

    def finish(self) -> None:
        self.played, self.exit_code = self.settings.limits.frames, 0

    def ask_to_end(self) -> None:
        self.asked = True

    def end(self) -> None:
        self.ended = True


class FakeTrainings:
    """All trainings that were started."""

    def __init__(self) -> None:
        self.all: list[FakeTraining] = []

    def start(self, settings: Settings, run_dir: Path) -> Training:
        self.all.append(FakeTraining(settings, run_dir))
        return self.all[-1]

    @property
    def running(self) -> list[FakeTraining]:
        return [one for one in self.all if one.exit_code is None and not one.ended]
