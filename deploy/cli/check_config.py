"""`a3cd check-config`: whether a learner could begin, or go on, with the settings in a file."""

import sys
from pathlib import Path

import click

from common.run.folder import RunFolder
from common.settings.sections import Settings
from common.settings.toml import parse, read
from learner.record.run_lock import fitted

STDIN = "standard input"


def check(file: Path, run_dir: Path | None, *, parse_only: bool) -> None:
    """Check settings and print what they are. Raises ConfigurationError for what a learner would refuse.

    file: `-` is standard input. run_dir: if it holds a run, that run must be able to go on with the settings.
    """
    settings = parse(sys.stdin.buffer.read(), STDIN) if str(file) == "-" else read(file)
    if run_dir is not None and (folder := RunFolder(run_dir)).holds_run():
        settings = fitted(settings, folder)
    if parse_only:
        click.echo(f"{file}: good: {_said(settings)}")
    else:
        _build(file, settings)


def _build(file: Path, settings: Settings) -> None:
    from learner.build import check as build  # loads torch, which takes seconds
    from learner.scaling import unreachable

    run = build(settings)
    spec, settings = run.spec, run.spec.settings
    made = f"{settings.network.kind} with {spec.parameters} parameters on {spec.device}, {settings.exchange.kind}"
    click.echo(f"{file}: good: {_said(settings)}; {made}")
    doubt = unreachable(settings.scaling, spec.longest_episode, first_length=None, step_seconds=spec.step_seconds)
    for text in filter(None, (*run.stats.warnings, doubt)):
        click.echo(f"warning: {text}", err=True)


def _said(settings: Settings) -> str:
    return f"{settings.environment.id}, {settings.algorithm.kind}, {settings.scaling.policy} scaling"
