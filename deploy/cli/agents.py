"""`a3cd evaluate`, `play`, `record` and `export`: what a trained agent does, here and elsewhere.

Stdout carries results, so what environments print goes to stderr.
"""

import sys
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import click

from actor.agent import EPISODE_STEPS, GIF_STEPS
from deploy.arguments import agent_options, json_option, newest_option, run_argument

PROGRESS_SECONDS = 10.0
_FILE = click.Path(path_type=Path, dir_okay=False)


class _Progress:
    """Says now and then how far an evaluation is: games in which nothing happens take minutes."""

    def __init__(self, episodes: int, max_steps: int) -> None:
        self._episodes, self._max_steps = episodes, max_steps
        self._steps = 0
        self._due = time.monotonic() + PROGRESS_SECONDS

    def __call__(self, played: int) -> None:
        self._steps += 1
        if (now := time.monotonic()) >= self._due:
            self._due = now + PROGRESS_SECONDS
            click.echo(
                f"{played} of {self._episodes} episodes played, after {self._steps:,} steps of each environment "
                f"(an episode has at most {self._max_steps:,})",
                err=True,
            )


@click.command()
@agent_options
@click.option("--episodes", type=click.IntRange(1), default=20, show_default=True)
@click.option(
    "--max-steps", type=click.IntRange(1), default=EPISODE_STEPS, show_default=True, help="Longest episode, in steps."
)
@json_option
def evaluate(run_dir: Path, as_json: bool, **options: Any) -> None:
    """Play episodes with the agent of the run folder RUN and print its returns."""
    from actor.agent import evaluation

    with redirect_stdout(sys.stderr):
        result = evaluation.evaluate(run_dir, **options, looked=_Progress(options["episodes"], options["max_steps"]))
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode(result).decode())
        return
    capped = f", {result.capped} cut off at {result.max_steps:,} steps" if result.capped else ""
    if result.capped and not result.sampled:
        capped += "; if nothing happens in them, try --sampled, which draws actions as in training"
    between = "" if result.low is None else f" (95 % interval by Student's t: {result.low:.2f} to {result.high:.2f})"
    click.echo(
        f"{result.env}, weights of version {result.version}, {'drawn' if result.sampled else 'best'} actions: "
        f"mean return {result.mean:.2f}{between}, median {result.median:.2f}, interquartile mean "
        f"{result.interquartile_mean:.2f}, from {result.minimum:g} to {result.maximum:g} over {result.episodes} "
        f"episodes of {result.length_mean:.0f} steps on average{capped}"
    )


@click.command()
@agent_options
def play(run_dir: Path, **options: Any) -> None:
    """Watch the agent of the run folder RUN in a window."""
    from actor.agent import window

    window.play(run_dir, **options)


@click.command()
@agent_options
@click.option("--out", type=_FILE, required=True, help=".gif, .mp4 or .webm")
@click.option("--episodes", type=click.IntRange(1), default=1, show_default=True)
@click.option(
    "--max-steps",
    type=click.IntRange(1),
    help=f"Longest recording, in steps of all episodes.  [default: {GIF_STEPS} for .gif, else {EPISODE_STEPS}]",
)
def record(run_dir: Path, out: Path, **options: Any) -> None:
    """Record the agent of the run folder RUN as a film."""
    from actor.agent import recording

    with redirect_stdout(sys.stderr):
        recording.record(run_dir, out, **options)
    click.echo(str(out))


@click.command()
@run_argument
@click.option("--to", "out", type=_FILE, required=True, help=".onnx, .pt2 or .safetensors")
@newest_option
@json_option
def export(run_dir: Path, out: Path, as_json: bool, **options: Any) -> None:
    """Export the policy of the run folder RUN to a file for other engines.

    It takes observations as the network does (stacked; choices from 0) and gives the best actions; before it is
    written, it is compared with the agent on 1,000 observations.
    """
    from actor.export import exporting

    with redirect_stdout(sys.stderr):
        result = exporting.export(run_dir, out, **options)
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode(result).decode())
        return
    ties = f", but for {result.ties} where two were as good to the last digits" if result.ties else ""
    click.echo(
        f"{result.file}: {result.env}, weights of version {result.version:,}, {result.size:,} bytes; the same actions "
        f"as the agent on {result.observations:,} observations{ties}; its numbers differ by {result.difference:.1g} at "
        "most"
    )
