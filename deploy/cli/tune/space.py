"""What is searched: ranges and choices of settings, a table of them for each algorithm, and how --search is read."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from common.errors import ConfigurationError
from common.settings.sections import Settings
from common.settings.toml import override
from deploy.cli.sweep import values_of

DIGITS = 3
"""Significant digits of a number that is drawn: nobody types more, and no score depends on more."""
OWN = ("seed", "environment.id", "algorithm.kind", "limits")
"""Settings and sections that a study sets itself."""
MEASURES = ("reproducible", "evaluation")
"""Settings and sections that must be the same for all trials, or their scores could not be compared."""
SUCH_AS = "optimizer.learning_rate=1e-4..1e-2,log or environment.num_envs=8,16"

_STEP_SIZE = {"adam": "1e-4..1e-2,log", "rmsprop": "1e-4..1e-2,log", "sgd": "1e-3..1,log"}
_EPSILON = {"adam": "1e-8..1e-3,log", "rmsprop": "1e-12..1e-4,log"}
"""Ranges of epsilon, by whether the optimizer adds it outside the root (adam) or inside (rmsprop)."""
_ACTOR_CRITIC = {
    "environment.num_envs": "4..32,log",
    "algorithm.rollout_length": "5..80,log",
    "algorithm.gae_lambda": "0.8..1",
    "algorithm.entropy_coef": "1e-4..5e-2,log",
    "algorithm.value_coef": "0.1..1",
}
_PPO = {
    "algorithm.rollout_length": "16..256,log",
    "algorithm.clip_range": "0.1..0.4",
    "algorithm.epochs": "2..12",
    "algorithm.minibatches": "2..16,log",
}
_VALUES = {
    "environment.num_envs": "4..32,log",
    "algorithm.rollout_length": "4..64,log",
    "algorithm.epsilon_frames": "10_000..1_000_000,log",
    "algorithm.target_frames": "500..40_000,log",
}
SPACES: dict[str, dict[str, str]] = {
    "a3c": _ACTOR_CRITIC,
    "a2c": _ACTOR_CRITIC,
    "vtrace": _ACTOR_CRITIC,
    "ppo": _ACTOR_CRITIC | _PPO,
    "one-step-q": _VALUES,
    "n-step-q": _VALUES,
    "one-step-sarsa": _VALUES,
}
"""By algorithm.kind, each setting's range as --search has it; `usual` adds the ranges of the optimizer's settings."""


@dataclass(frozen=True)
class Range:
    """Numbers from low to high, both of which are in it; whole ones if these are."""

    key: str
    low: float
    high: float
    log: bool

    @property
    def whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)

    def holds(self, settings: Settings) -> float | None:
        """The settings' own value if it is in the range."""
        value = value_at(settings, self.key)
        return value if value is not None and self.low <= value <= self.high else None

    def used(self, drawn: Any) -> float:
        """The number that is trained with: the one drawn, rounded to DIGITS digits and kept in the range."""
        return int(drawn) if self.whole else min(max(float(f"{drawn:.{DIGITS}g}"), self.low), self.high)

    def __str__(self) -> str:
        return f"{self.key}={self.low!r}..{self.high!r}{',log' if self.log else ''}"


@dataclass(frozen=True)
class Choice:
    """A few values, as --set takes them."""

    key: str
    texts: tuple[str, ...]

    def holds(self, settings: Settings) -> str | None:
        """The settings' own value if it is one of these."""
        own = value_at(settings, self.key)
        same = (text for text in self.texts if value_at(override(settings, [f"{self.key}={text}"]), self.key) == own)
        return next(same, None)

    def used(self, drawn: Any) -> str:
        """The value drawn."""
        return str(drawn)

    def __str__(self) -> str:
        return f"{self.key}={','.join(self.texts)}"


Axis = Range | Choice


def usual(settings: Settings) -> dict[str, str]:
    """What is searched for these settings by default: ranges by their keys."""
    optimizer = settings.optimizer.kind
    epsilon = {"optimizer.epsilon": _EPSILON[optimizer]} if optimizer in _EPSILON else {}
    return {"optimizer.learning_rate": _STEP_SIZE[optimizer], **SPACES[settings.algorithm.kind], **epsilon}


def space(settings: Settings, searched: Sequence[str], assignments: Iterable[str]) -> list[Axis]:
    """The table's axes without those that are set by `assignments`, and with those of `searched` added or replaced.

    Raises ConfigurationError.
    """
    fixed = {assignment.partition("=")[0].strip() for assignment in assignments}
    axes = {key: parse(f"{key}={its}", settings) for key, its in usual(settings).items() if key not in fixed}
    given: dict[str, Axis] = {}
    for text in searched:
        axis = parse(text, settings)
        if axis.key in fixed:
            raise ConfigurationError(f"--search {text}: {axis.key} has one value by --set; leave one of the two out")
        if axis.key in given:
            raise ConfigurationError(f"--search {text}: {axis.key} is searched already: --search {given[axis.key]}")
        given[axis.key] = axis
    found = list((axes | given).values())
    if not found:
        raise ConfigurationError("nothing is left to search: --set has a value for all; leave one out, or use --search")
    return found


def parse(text: str, settings: Settings) -> Axis:
    """Reads `KEY=LOW..HIGH`, with `,log` drawn evenly by its logarithm, or `KEY=A,B,C`; raises ConfigurationError.

    The values at both ends, and each of the choices, must be valid together with `settings`.
    """
    key, values = values_of(text, "--search", SUCH_AS)
    key, values = key.strip(), [value.strip() for value in values]
    source = f"--search {text}"
    refuse_own(key, source)
    if _below(key, MEASURES):
        raise ConfigurationError(
            f"{source}: trials are compared by scores, so {key} must be the same for all; use --set"
        )
    if ".." in values[0]:
        return _range(key, values, settings, source)
    if len(values) < 2 or len(set(values)) < len(values):
        raise ConfigurationError(f"{source}: must be a range, or two values or more that differ, such as {SUCH_AS}")
    for value in values:
        override(settings, [f"{key}={value}"], source)
    return Choice(key, tuple(values))


def _range(key: str, values: Sequence[str], settings: Settings, source: str) -> Range:
    ends, *form = values
    low, _, high = ends.partition("..")
    if form not in ([], ["log"]):
        raise ConfigurationError(f"{source}: behind a range stands nothing, or log, not {','.join(form)}")
    numbers = [value_at(override(settings, [f"{key}={end}"], source), key) for end in (low.strip(), high.strip())]
    if not all(isinstance(one, int | float) and not isinstance(one, bool) for one in numbers):
        raise ConfigurationError(f"{source}: {key} is no number; give its values, as in {key}=A,B")
    if not numbers[0] < numbers[1]:
        raise ConfigurationError(f"{source}: a range begins below its end, not at {low} with {high} as its end")
    if form and numbers[0] <= 0:
        raise ConfigurationError(f"{source}: a range with log begins above 0, not at {low}")
    return Range(key, numbers[0], numbers[1], log=bool(form))


def refuse_own(key: str, source: str) -> None:
    """Raises ConfigurationError for a setting that the study sets itself."""
    if _below(key, OWN):
        raise ConfigurationError(
            f"{source}: {key} is the study's own: ENV and --algorithm say what is learnt, --frames and --seconds for "
            "how long, --seeds how often"
        )


def _below(key: str, sections: Iterable[str]) -> bool:
    """Whether the key is one of these, or in one of these."""
    return any(key == one or key.startswith(f"{one}.") for one in sections)


def value_at(settings: Settings, key: str) -> Any:
    """The value of the setting at a dotted path; None where there is none, as may be below environment.options."""
    value: Any = msgspec.to_builtins(settings)
    for name in key.split("."):
        value = value.get(name)
    return value


def assignments_of(axes: Iterable[Axis], drawn: Mapping[str, Any]) -> list[str]:
    """The values `drawn`, which are by key, as --set takes them."""
    return [f"{axis.key}={axis.used(drawn[axis.key])}" for axis in axes]
