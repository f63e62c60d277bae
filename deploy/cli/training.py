"""The command `a3cd train`: its options, and what it offers without an environment."""

import sys
from pathlib import Path
from typing import Any

import click

from deploy.arguments import (
    RangeType,
    algorithm_option,
    env_argument,
    finish,
    json_option,
    lifeline_option,
    limit_options,
    metrics_options,
    network_option,
    set_option,
)
from deploy.tracking.tracker import TRACKERS, require

_FILE = click.Path(path_type=Path, dir_okay=False)
_FOLDER = click.Path(path_type=Path, file_okay=False)
FIRST = "CartPole-v1"
"""The environment that is suggested first: it is learnt in seconds."""


class _Remembering(click.Command):
    """Keeps the words of its command line, for commands that get them again."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta["words"] = list(args)
        return super().parse_args(ctx, args)


@click.command(cls=_Remembering)
@env_argument(required=False)
@click.option("--config", type=_FILE, help="Run settings (TOML) instead of the preset's: see `a3cd init`.")
@click.option("--actors", type=RangeType(), help="Number of actors; a range scales with the duration of episodes.")
@algorithm_option
@network_option
@click.option(
    "--reproducible", is_flag=True, help="The same command gives the same weights to the last bit, more slowly."
)
@limit_options("time")
@click.option("--seeds", help="Train once with each of these seeds, one after the other: 0..4, or 0,3.")
@set_option
@click.option("--run-dir", type=_FOLDER, help="Default: runs/ENV-DATE-TIME; with --seeds the runs are in it.")
@click.option("--resume", is_flag=True, help="Go on with the run in --run-dir (last: the newest).")
@click.option("--no-curve", is_flag=True, help="Draw no learning curve at the end (see `a3cd curve`).")
@click.option("--dry-run", is_flag=True, help="Check it and print what would be started, and start nothing.")
@metrics_options
@click.option(
    "--track",
    "trackers",
    type=click.Choice(TRACKERS),
    multiple=True,
    help="Also report the run there: see `a3cd track`.",
)
@json_option
@lifeline_option
def train(
    env: str | None, config: Path | None, resume: bool, as_json: bool, dry_run: bool, seeds: str | None, **given: Any
) -> None:
    """Train on this machine: learner, launcher and actors as processes that talk over tcp.

    ENV is a Gymnasium id (CartPole-v1, ALE/Pong-v5, module:Id-v0), a class in a file of your own (my_envs.py:Grid) or
    a preset's name (see `a3cd presets`). With --config or --resume it may be left out.
    """
    words = click.get_current_context().meta["words"]
    if env is None and config is None and not resume:
        env = chosen()
        words = [env, *words]
    for kind in given["trackers"]:
        require(kind)
    if seeds is not None:
        from deploy.cli import seeds as each

        every = each.plan(seeds, words, env=env, config=config, resume=resume, **given)
        if dry_run:
            each.show_plan(every, as_json=as_json)
            return
        finish(each.train(every, words, as_json=as_json))
    from deploy.cli.request import request

    one = request(env, config=config, resume=resume, **given)
    if dry_run:
        from deploy.cli.dry_run import training

        training(one, as_json=as_json)
        return
    from deploy.cli.train import train as run

    finish(run(one, as_json=as_json))


def chosen() -> str:
    """Ask a person at a terminal to choose a preset; elsewhere list the presets and raise UsageError."""
    from common.run import presets

    names = presets.names()
    for number, name in enumerate(names, 1):
        click.echo(f"{number:>3}  {name:<24}{presets.show(name).purpose}", err=True)
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise click.UsageError(
            f"train what? `a3cd train {FIRST}`, another of these, any Gymnasium id (ALE/Tennis-v5, module:Id-v0) or a "
            "class in a file of your own (my_envs.py:Grid)"
        )
    answer = str(click.prompt("Train which? A number, a name, or any Gymnasium id", default=FIRST, err=True)).strip()
    return names[int(answer) - 1] if answer.isdecimal() and 0 < int(answer) <= len(names) else answer
