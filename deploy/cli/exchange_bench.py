"""Short runs of `a3cd train` with each exchange.kind, side by side."""

import json
import tempfile
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.table import Table

from common.errors import EXIT_DONE, ConfigurationError, UnavailableError
from common.run.folder import RunFolder
from common.settings.exchanges import EXCHANGES
from common.settings.sections import Limits
from common.settings.toml import override
from deploy.cli.request import TrainRequest, request
from deploy.cli.supervising import supervise
from deploy.cli.view.formatting import number, share

ENDLESS_FRAMES = 10**9
"""So many that a run ends by its seconds alone, and that a learning rate which falls with the frames stays the same."""
WARM_UP = 1 / 3
"""Part of the rows since the first frame that is left out, since actors start one after another."""
ALIKE = 1.1
"""Ways whose frames per second differ by a smaller factor are about equally fast."""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    exchange: str
    frames_per_second: float
    uploads_per_second: float
    """Gradients, or rollouts, that reached the learner's weights."""
    upload_bytes_per_frame: float
    lag_mean: float
    """Optimizer steps between the weights that acted and those that learn."""
    lag_p95: float
    learner_busy: float
    """Part of the time that the learner's thread was at work."""


def exchange(env: str, *, seconds: float, also_actions: bool, as_json: bool, **given: Any) -> int:
    """Train with each exchange.kind in turn, print the figures on stdout, and return the exit code.

    `given` are further options of `a3cd train`: actors, algorithm, network, assignments.
    """
    unset = dict.fromkeys(("seed", "frames", "episodes", "seconds", "until_return"))
    limits = Limits(frames=ENDLESS_FRAMES, seconds=seconds)
    settings = msgspec.structs.replace(request(env, **{**unset, **given}).settings, limits=limits)
    results: list[Measured] = []
    for kind in EXCHANGES[settings.algorithm.kind]:
        if kind == "actions" and not also_actions:
            continue
        try:
            chosen = override(settings, [f"exchange.kind={kind}"])
        except ConfigurationError as error:
            click.echo(f"exchange.kind = {kind} is left out: {error}", err=True)
            continue
        with tempfile.TemporaryDirectory(prefix="a3cd-bench-") as folder:
            run = TrainRequest(chosen, Path(folder, "run"), resume=False, no_curve=True)
            code, summary = supervise(run)
            if code != EXIT_DONE or not summary:
                return code
            lines = RunFolder(run.run_dir).metrics_file.read_text(encoding="utf-8").splitlines()
            results.append(measured(kind, [json.loads(line) for line in lines], summary))
    if not results:
        raise ConfigurationError(f"{env}: no exchange.kind goes with these settings; the reasons are above")
    if as_json:
        shown = {"env": env, "seconds": seconds, "ways": results, "fastest": ranked(results)[0].exchange}
        click.echo(msgspec.json.encode(shown).decode())
    else:
        Console().print(table(results))
        click.echo(advice(results))
    return EXIT_DONE


def measured(kind: str, rows: list[dict[str, Any]], summary: dict[str, Any]) -> Measured:
    """Rates over the last two thirds of the rows with frames; bytes and lag over the whole run.

    Raises UnavailableError where there are too few rows.
    """
    played = [row for row in rows if row["frames"]]
    played = played[int(len(played) * WARM_UP) :]
    if len(played) < 2:
        raise UnavailableError(f"exchange.kind = {kind}: the actors hardly began to play; give them more --seconds")
    first, last = played[0], played[-1]
    seconds = last["seconds"] - first["seconds"]
    return Measured(
        exchange=kind,
        frames_per_second=(last["frames"] - first["frames"]) / seconds,
        uploads_per_second=(last["gradients"] - first["gradients"]) / seconds,
        upload_bytes_per_frame=summary["gradient_bytes"] / summary["frames"],
        lag_mean=summary["lag_mean"],
        lag_p95=summary["lag_p95"],
        learner_busy=sum(row["learner_busy"] for row in played) / len(played),
    )


def table(results: list[Measured]) -> Table:
    shown = Table(box=None, pad_edge=False)
    shown.add_column("exchange.kind")
    for heading in ("frames/s", "uploads/s", "bytes up/frame", "lag", "lag p95", "learner busy"):
        shown.add_column(heading, justify="right", no_wrap=True)
    for way in results:
        exchange, *figures, busy = msgspec.structs.astuple(way)
        shown.add_row(exchange, *map(number, figures), share(busy))
    return shown


def ranked(results: list[Measured]) -> list[Measured]:
    return sorted(results, key=lambda way: -way.frames_per_second)


def advice(results: list[Measured]) -> str:
    """Which exchange.kind to set, in one line."""
    best, *others = ranked(results)
    if not others:
        return f'exchange.kind = "{best.exchange}" is the only way that was measured'
    second = others[0]
    factor = best.frames_per_second / second.frames_per_second if second.frames_per_second else float("inf")
    if factor < ALIKE:
        return f'{best.exchange} and {second.exchange} are about equally fast: exchange.kind = "auto" will do'
    return f'set exchange.kind = "{best.exchange}": {number(factor)} times the frames/s of {second.exchange}'
