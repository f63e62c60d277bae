"""`a3cd replay`: shows that the weights of a run are what its recorded gradients make of them."""

from pathlib import Path

import click
import msgspec

from common.errors import EXIT_CONFIGURATION, EXIT_DIFFERENT, EXIT_DONE, ConfigurationError, DamagedRecordError
from common.run.folder import RunFolder
from learner.record.contributions import Applied, contributions
from learner.replay import Replayed, replay


def run(path: Path, *, start: int | None, until: int | None, peer: str | None, as_json: bool) -> int:
    """Replay the run in a folder, or list what one actor contributed; returns the exit code."""
    if peer is not None:
        return _list(path, peer, start or 0, until, as_json=as_json)
    result = replay(path, start, until)
    if as_json:
        plain = msgspec.to_builtins(result) | {"equal": result.equal}
        click.echo(msgspec.json.encode(plain).decode())
    else:
        click.echo("\n".join(_lines(result)))
    if result.differs:
        return EXIT_DIFFERENT
    return EXIT_DONE if result.equal else EXIT_CONFIGURATION


def _lines(result: Replayed) -> list[str]:
    origin = f"checkpoint {result.started_from}" if result.started_from else "new weights"
    actors = f"{len(result.actors)} actor{'' if len(result.actors) == 1 else 's'}"
    lines = [
        f"run {result.run}: {result.env}, {result.algorithm}, {result.exchange}; "
        f"recorded are versions {result.first:,} to {result.last:,}"
    ]
    lines += [f"no further back, because {result.hole}"] if result.hole else []
    lines += [
        f"lost when epoch {lost.epoch} ended: versions {lost.after + 1:,} to {lost.until:,}, which no later weights "
        "stand on"
        for lost in result.lost
    ]
    lines.append(
        f"replayed from {origin} at version {result.start:,} to {result.version:,}: {result.steps:,} steps with "
        f"{result.contributions:,} {result.exchange} of {actors}"
    )
    lines += [f"  {name:<40}{count:>12,}" for name, count in sorted(result.actors.items())]
    lines += [f"applied twice: {text}" for text in result.duplicates] or ["applied twice: none"]
    checkpoints = ", ".join(result.checkpoints) or "none"
    lines.append(f"found equal: {result.checksums:,} checksums; checkpoints: {checkpoints}")
    if result.difference:
        lines.append(f"different from version {result.different_version:,} on: {result.difference}")
    if result.problem:
        lines.append(f"not shown: {result.problem}")
    if result.equal:
        lines.append(f"equal: the weights of version {result.version:,}, checksum {result.checksum}")
    return lines


def _list(path: Path, peer: str, start: int, until: int | None, *, as_json: bool) -> int:
    folder = RunFolder(path)
    folder.record()
    others: set[str] = set()
    found = False
    try:
        for one in contributions(folder.gradients):
            if one.version <= start or (until is not None and one.version > until):
                continue
            if one.peer != peer:
                others.add(one.peer)
                continue
            if not (found or as_json):
                click.echo(f"{'sequence':>10}{'into version':>14}{'lag':>6}{'weight':>8}{'rollouts':>10}{'norm':>12}")
            found = True
            click.echo(msgspec.json.encode(one).decode() if as_json else _row(one))
    except DamagedRecordError as error:
        click.echo(str(error), err=True)
        return error.exit_code
    if not found:
        names = ", ".join(sorted(others)) or "nobody"
        raise ConfigurationError(
            f"{folder.gradients}: nothing of {peer} was applied; there are contributions of {names}"
        )
    return EXIT_DONE


def _row(one: Applied) -> str:
    norm = "-" if one.norm is None else f"{one.norm:.4g}"
    return f"{one.sequence:>10}{one.version:>14}{one.lag:>6}{one.weight:>8.3f}{one.rollouts:>10}{norm:>12}"
