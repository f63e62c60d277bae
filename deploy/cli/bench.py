"""`a3cd bench`: measure on this machine which settings are faster."""

from __future__ import annotations

from typing import Any

import click

from deploy.cli.arguments import RangeType, finish, json_option, set_option


@click.group()
def bench() -> None:
    """Measure on this machine which settings are faster."""


@bench.command()
@click.argument("env")
@click.option("--seconds", type=click.FloatRange(5), default=20.0, show_default=True, help="Length of each run.")
@click.option("--actors", type=RangeType(), help="As in `a3cd train`.")
@click.option("--algorithm", help="As in `a3cd train`.")
@click.option("--network", help="As in `a3cd train`.")
@click.option("--all", "also_actions", is_flag=True, help="Measure exchange.kind = actions, too.")
@set_option
@json_option
def exchange(env: str, **given: Any) -> None:
    """Train ENV for a short time with each exchange.kind, and say which one to set.

    The runs are those of `a3cd train`; their folders are deleted. Frames per second are not everything: with a smaller
    lag, a frame teaches more.
    """
    from deploy.cli.exchange_bench import exchange as run

    finish(run(env, **given))
