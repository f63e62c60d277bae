"""The request to `a3cd train`: its command line put over the preset, a file, or the settings of a resumed run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.errors import ConfigurationError
from common.host.addresses import DEFAULT_PORT, Address
from common.host.modules import module_of
from common.run import presets
from common.run.folder import RunFolder, default_path
from common.run.runs import find_run
from common.settings.own_code import own_code
from common.settings.sections import Settings
from common.settings.toml import override, replace_at

USUAL = Address("127.0.0.1", DEFAULT_PORT)
"""Where a training listens, unless that port is in use."""
REPRODUCIBLE: dict[str, Any] = {
    "staleness.policy": "synchronous",
    "scaling.policy": "fixed",
    "optimizer.device": "cpu",
    "limits.seconds": 0.0,
    "checkpoint.return_to_best": False,
    "reproducible": True,
}
"""Settings that --reproducible puts over a preset; other options that do not fit them are refused."""


@dataclass(frozen=True)
class TrainRequest:
    settings: Settings
    run_dir: Path
    resume: bool
    no_curve: bool = False
    metrics: Address | None = None
    """Where to listen for Prometheus."""
    trackers: tuple[str, ...] = ()
    """Trackers that are told of the run while it goes on."""

    @property
    def slots(self) -> int:
        """Most actors there will be."""
        return max(1, self.settings.scaling.most)

    @property
    def modules(self) -> list[str]:
        """Options that allow a child to import what the settings name."""
        named = sorted(set(map(module_of, own_code(self.settings))))
        return [word for module in named for word in ("--allow-module", module)]

    def learner(self, address: Address) -> list[str]:
        """The arguments of `a3cd` for the learner, except where its settings come from."""
        words = ["learner", "--bind", str(address), "--run-dir", str(self.run_dir), "--no-curve"]
        words += ["--resume"] if self.resume else []
        if self.metrics is not None:
            words += ["--metrics", f"{self.metrics.host}:{self.metrics.port}"]
            words += [] if self.metrics.loopback else ["--insecure-metrics"]
        return words

    def launcher(self, address: Address) -> list[str]:
        """The arguments of `a3cd` for the launcher."""
        prestart = min(self.settings.scaling.minimum, self.slots)
        words = ["--slots", str(self.slots), "--prestart", str(prestart), "--name", "here"]
        # The learner, on loopback, has no keys; a credential that is stored for such an address is another learner's.
        return ["launcher", str(address), "--insecure", *words, *self.modules]


def request(
    env: str | None,
    *,
    actors: tuple[int, int] | None = None,
    assignments: tuple[str, ...] = (),
    config: Path | None = None,
    run_dir: Path | None = None,
    resume: bool = False,
    reproducible: bool = False,
    no_curve: bool = False,
    metrics: Address | None = None,
    trackers: tuple[str, ...] = (),
    **options: Any,
) -> TrainRequest:
    """Turn the command line into a request; assignments are put over options, and options over the preset or `config`.

    env: None where `config` or `resume` names it.
    options: algorithm, network, seed, frames, episodes, seconds, until_return; None: not given.
    Raises ConfigurationError for settings that are not valid.
    """
    if config is not None:
        settings = presets.from_file(config, env, options["algorithm"])
    elif env is not None:
        settings = presets.for_environment(env, options["algorithm"])
    else:
        settings = Settings()
    if resume:
        if run_dir is None:
            raise ConfigurationError("--resume needs --run-dir: which run is to go on? (last: the newest)")
        if config is not None:
            raise ConfigurationError(
                "--config with --resume: the run goes on with its own settings; --set changes them"
            )
        run_dir = find_run(run_dir)
        wanted = settings.environment.id
        settings = RunFolder(run_dir).settings()
        if env is not None and settings.environment.id != wanted:
            raise ConfigurationError(f"{run_dir}: the run is of {settings.environment.id}, not of {wanted}")
    if reproducible:
        settings = replace_at(settings, REPRODUCIBLE, "--reproducible")
    settings = asked(settings, actors=actors, assignments=assignments, **options)
    where = run_dir or default_path(env or settings.environment.id)
    return TrainRequest(settings, where, resume, no_curve, metrics, trackers)


def asked(
    settings: Settings, *, actors: tuple[int, int] | None, assignments: tuple[str, ...], **options: Any
) -> Settings:
    """The settings with what a command line says, in the arguments of `request`; raises ConfigurationError."""
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
