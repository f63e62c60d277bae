"""What `a3cd train` was asked for: its command line over the preset, a file, or the settings of a resumed run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.errors import ConfigurationError
from common.run import presets
from common.run.folder import RunFolder, default_path
from common.settings.sections import Settings
from common.settings.toml import override, replace_at

REPRODUCIBLE: dict[str, Any] = {
    "staleness.policy": "synchronous",
    "scaling.policy": "fixed",
    "optimizer.device": "cpu",
    "limits.seconds": 0.0,
    "checkpoint.return_to_best": False,
    "reproducible": True,
}
"""What --reproducible puts over a preset; what the command line says beside it is refused where it does not fit."""


@dataclass(frozen=True)
class TrainRequest:
    settings: Settings
    run_dir: Path
    resume: bool
    no_curve: bool = False

    @property
    def slots(self) -> int:
        """Most actors there will be."""
        return max(1, self.settings.scaling.most)


def request(
    env: str,
    *,
    actors: tuple[int, int] | None = None,
    assignments: tuple[str, ...] = (),
    config: Path | None = None,
    run_dir: Path | None = None,
    resume: bool = False,
    reproducible: bool = False,
    no_curve: bool = False,
    **options: Any,
) -> TrainRequest:
    """Turn the command line into a request; assignments are put over options, and options over the preset or `config`.

    options: algorithm, network, seed, frames, episodes, seconds, until_return; None: not given.
    Raises ConfigurationError for settings that are not valid.
    """
    if config is None:
        settings = presets.for_environment(env, options["algorithm"])
    else:
        settings = presets.from_file(config, env, options["algorithm"])
    if resume:
        if run_dir is None:
            raise ConfigurationError("--resume needs --run-dir: which run is to go on?")
        if config is not None:
            raise ConfigurationError(
                "--config with --resume: the run goes on with its own settings; --set changes them"
            )
        wanted = settings.environment.id
        settings = RunFolder(run_dir).settings()
        if settings.environment.id != wanted:
            raise ConfigurationError(f"{run_dir}: the run is of {settings.environment.id}, not of {wanted}")
    if reproducible:
        settings = replace_at(settings, REPRODUCIBLE, "--reproducible")
    settings = asked(settings, actors=actors, assignments=assignments, **options)
    return TrainRequest(settings, run_dir or default_path(env), resume, no_curve)


def asked(
    settings: Settings, *, actors: tuple[int, int] | None, assignments: tuple[str, ...], **options: Any
) -> Settings:
    """The settings with what a command line says, as `request`; raises ConfigurationError."""
    given: dict[str, Any] = {
        "algorithm.kind": options["algorithm"],
        "network.kind": options["network"],
        "seed": options["seed"],
        **{f"limits.{name}": options[name] for name in ("frames", "episodes", "seconds", "until_return")},
    }
    if actors is not None:
        minimum, maximum = actors
        policy = settings.scaling.policy
        if minimum == maximum:
            policy = "fixed"
        elif policy == "fixed":
            policy = "episode-duration"
        given |= {"scaling.policy": policy, "scaling.minimum": minimum, "scaling.maximum": maximum}
    given = {path: value for path, value in given.items() if value is not None}
    return override(replace_at(settings, given, "the command line"), assignments)
