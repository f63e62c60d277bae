"""`a3cd relay`: read its command line."""

from pathlib import Path

import click

from common.host.addresses import Address
from common.host.process import give_way
from common.host.service import logs
from deploy.arguments import (
    LearnerType,
    access_options,
    allowed_option,
    bind_option,
    find_endpoints,
    finish,
    lifeline_option,
    nice_option,
    wait_option,
)


@click.command()
@click.argument("learner", metavar="LEARNER", type=LearnerType())
@bind_option("Where actors connect")
@click.option("--name", default="", help="This relay's name in status; default: host. The next one here has the same.")
@allowed_option("actors")
@click.option(
    "--mbit",
    type=click.FloatRange(0, min_open=True),
    help="What weights may take of the actors' network, in Mbit/s; default: exchange.egress_mbit of the run.",
)
@access_options
@nice_option
@wait_option
@lifeline_option
def relay(
    learner: Address | str,
    bind: Address,
    name: str,
    allowed: Path | None,
    mbit: float | None,
    keys: Path | None,
    credential: Path | None,
    insecure: bool,
    nice: int,
    wait: float,
) -> None:
    """Stand between the learner at LEARNER (tcp://host:5555, or an invitation) and the actors of one site.

    Actors connect to it as to a learner: `a3cd actor` with its address. It adds their gradients up and passes weights
    on, so that both cross the link to the learner once, not once for each actor. For many actors, and for runs in
    which these send gradients. Launchers stay with the learner. With keys it is a peer of the role relay at the
    learner, and has a key folder of its own as a learner has: `a3cd keys new learner`, `a3cd keys invite HOST`.
    """
    from learner.authentication import LearnerKeys
    from relay.daemon import run

    logs.setup("relay")
    give_way(nice)
    (access,) = find_endpoints([learner], keys=keys, credential=credential, insecure=insecure)
    own_keys = LearnerKeys.find(bind, keys=keys, allowed=allowed, insecure=insecure)
    finish(run(access, bind=bind, keys=own_keys, name=name, mbit=mbit or 0.0, wait=wait))
