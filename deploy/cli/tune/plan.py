"""The plan of a study: all that must be the same for scores to be compared, and the settings of its trainings."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import msgspec

from common.errors import ConfigurationError
from common.settings.sections import Settings
from common.settings.toml import by_path, dump, dump_changed, override, parse
from deploy.cli.tune.space import Axis, assignments_of
from deploy.cli.tune.space import parse as parse_axis

FIRST_SEED = 1000
"""First seed of a trial's trainings. Results are to be reported on other seeds, such as --seed 0 to 9."""
EVALUATED_SECONDS = 120.0
"""A training that lasts so long has enough evaluations for a curve: the first after 45 s, then one every
evaluation.every_seconds."""
Score = Literal["training", "evaluation"]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """All values are plain, since they are kept in the study."""

    env: str
    settings: str
    """The settings as TOML, before anything is drawn; with the preset's limits."""
    space: list[str]
    """The axes, each as --search has it."""
    frames: int | None
    seconds: float | None
    seeds: int
    score: Score
    simulate: bool = False

    @property
    def base(self) -> Settings:
        return parse(self.settings, "the study's settings")

    @property
    def axes(self) -> list[Axis]:
        return [parse_axis(text, self.base) for text in self.space]

    @property
    def unsearched(self) -> dict[str, Any]:
        """The settings' own values, without a search, as they would be drawn; without those outside their range."""
        base = self.base
        held = {axis.key: axis.holds(base) for axis in self.axes}
        return {key: value for key, value in held.items() if value is not None}

    @property
    def measure(self) -> Literal["frames", "seconds"]:
        """What a training's curve runs over."""
        return "frames" if self.frames else "seconds"

    @property
    def length(self) -> float:
        """The length of a training, in that measure."""
        return float(self.frames or self.seconds or 0)

    def drawn(self, values: dict[str, Any]) -> Settings:
        """The settings for a person who trains with what was drawn. Raises ConfigurationError where they clash."""
        return override(self.base, assignments_of(self.axes, values), "drawn")

    def training(self, values: dict[str, Any], number: int) -> Settings:
        """The settings of training `number` of a trial, which ends by its length alone; raises as `drawn`."""
        settings = self.drawn(values)
        frames, seconds = self.frames or settings.limits.frames, self.seconds or 0.0
        limits = msgspec.structs.replace(
            settings.limits, frames=frames, seconds=seconds, episodes=0, until_return=None, until_return_of="training"
        )
        return msgspec.structs.replace(settings, seed=FIRST_SEED + number, limits=limits)

    def config(self, values: dict[str, Any], told: Sequence[str]) -> str:
        """The file for `a3cd train --config`, with the lines `told` above it as comments."""
        return "".join(f"# {line}\n" for line in told) + dump_changed(self.drawn(values))

    @classmethod
    def of(
        cls,
        env: str,
        settings: Settings,
        axes: Sequence[Axis],
        *,
        frames: int | None,
        seconds: float | None,
        seeds: int,
        score: Score | None,
        simulate: bool,
    ) -> Self:
        """Makes a plan; raises ConfigurationError for a length or a score that cannot be."""
        if not frames and not seconds:
            raise ConfigurationError("how long is a training? give --frames or --seconds")
        long = seconds is not None and not frames and seconds >= EVALUATED_SECONDS
        possible = settings.evaluation.episodes > 0 and not simulate
        if score == "evaluation" and not possible:
            why = "--simulate has no evaluator" if simulate else "evaluation.episodes = 0"
            raise ConfigurationError(f"--score evaluation: nothing is evaluated with {why}; use --score training")
        return cls(
            env=env,
            settings=dump(settings),
            space=[str(axis) for axis in axes],
            frames=frames,
            seconds=seconds,
            seeds=seeds,
            score=score or ("evaluation" if long and possible else "training"),
            simulate=simulate,
        )


def require_same(plan: Plan, kept: Plan, file: Path) -> None:
    """Raises ConfigurationError that names what differs from the plan that a study is `kept` with."""
    for its, wanted in _differing(kept, plan):
        raise ConfigurationError(f"{file}: the study's trials have {its}, not {wanted}; choose another --study")


def _differing(kept: Plan, plan: Plan) -> Iterator[tuple[str, str]]:
    """The differences in words: what one plan has, and what the other has."""
    its, wanted = by_path(kept.base), by_path(plan.base)
    for key in sorted(its.keys() | wanted.keys()):
        if its.get(key) != wanted.get(key):
            yield f"{key} = {its.get(key)!r}", repr(wanted.get(key))
    for text in sorted({*kept.space} ^ {*plan.space}):
        key = text.partition("=")[0]
        one, other = (next((one for one in all if one.startswith(f"{key}=")), None) for all in (kept.space, plan.space))
        yield f"--search {one}" if one else f"no --search {key}", f"--search {other}" if other else "none"
    for name in ("frames", "seconds", "seeds", "score", "simulate"):
        if getattr(kept, name) != getattr(plan, name):
            yield f"--{name} {getattr(kept, name)}", str(getattr(plan, name))
