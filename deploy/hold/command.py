"""`a3cd hold`: what a launcher runs on a host over ssh; no command for a person."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from common.host.service import logs


@click.command(hidden=True)
@click.option("--serve", type=click.Path(path_type=Path, file_okay=False), help="Be the holder of this folder.")
@click.option("--lock", type=int, default=-1, help="Descriptor inherited from the relay.")
@click.option("--listener", type=int, default=-1, help="Likewise.")
def hold(serve: Path | None, lock: int, listener: int) -> None:
    """Start and stop actors on this host for a launcher on another, in JSON lines on standard input and output."""
    logs.setup("hold")
    if serve is None:
        from deploy.hold import relay

        sys.exit(relay.run())
    from deploy.hold import holder

    sys.exit(holder.serve(serve, lock, listener))
