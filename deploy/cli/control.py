"""`a3cd stop`, `checkpoint` and `scale`: what an operator tells a learner, from any host."""

import json
from typing import Any

import click

from common.errors import UnavailableError
from common.host.security.access import LearnerEndpoint
from common.host.service.logs import printable
from deploy.arguments import RangeType, json_option, learner_argument, timeout_option


@click.command()
@learner_argument
@json_option
@timeout_option
def stop(access: LearnerEndpoint, as_json: bool, timeout: float) -> None:
    """Stop the run at LEARNER, after a checkpoint.

    The learner ends as after SIGTERM. Its run can be resumed; actors and launchers wait for it. Waits until the
    checkpoint is on the disk. Needs a key with the role operator, or the learner's host.
    """
    from common.wire.messages import Halt

    saved = _given(access, Halt(), timeout)
    if saved.error:
        raise UnavailableError(f"the run is stopped, but its last checkpoint could not be written: {saved.error}")
    _show(saved, "stopped; ", as_json)


@click.command()
@learner_argument
@json_option
@timeout_option
def checkpoint(access: LearnerEndpoint, as_json: bool, timeout: float) -> None:
    """Write a checkpoint of the run at LEARNER now.

    Waits until it is on the disk of the learner's host. Needs a key with the role operator, or the learner's host.
    """
    from common.wire.messages import Save

    saved = _given(access, Save(), timeout)
    if saved.error:
        raise UnavailableError(f"the checkpoint could not be written: {saved.error}")
    _show(saved, "", as_json)


@click.command()
@learner_argument
@click.argument("actors", type=RangeType(least=0))
@json_option
@timeout_option
def scale(access: LearnerEndpoint, actors: tuple[int, int], as_json: bool, timeout: float) -> None:
    """Change the number of actors of the run at LEARNER.

    ACTORS is N or MIN..MAX. With N there are so many, whatever scaling.policy says; 0 pauses the run. MIN..MAX are
    bounds for a policy that is not fixed. It holds for this run, also after a restart. Needs a key with the role
    operator, or the learner's host.
    """
    from common.settings.sections import MAX_ACTORS
    from common.wire.messages import Scale

    minimum, maximum = actors
    if maximum > MAX_ACTORS:
        raise click.UsageError(f"{maximum} actors: at most {MAX_ACTORS}")
    told = _given(access, Scale(minimum=minimum, maximum=maximum), timeout)
    if as_json:
        click.echo(
            json.dumps({"minimum": told.minimum, "maximum": told.maximum, "wanted": told.wanted, "room": told.room})
        )
        return
    bounds = f"{told.minimum} actors" if told.minimum == told.maximum else f"{told.minimum} to {told.maximum} actors"
    room = "" if told.wanted <= told.room else f"; the launchers have room for {told.room}"
    click.echo(f"{bounds}: {told.wanted} wanted now{room}")


def _given(access: LearnerEndpoint, order: Any, timeout: float) -> Any:
    from deploy.cli.orders import give

    return give(access, order, timeout)


def _show(saved: Any, before: str, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"version": saved.version, "checkpoint": saved.path}))
    else:
        click.echo(f"{before}checkpoint of version {saved.version}: {printable(saved.path)}")
