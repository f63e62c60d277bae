"""`a3cd evaluator`: evaluate the weights of a run while it goes on."""

import click

from common.host.process import give_way
from common.host.security.access import LearnerEndpoint
from common.host.service import logs
from deploy.arguments import finish, learner_argument, lifeline_option, module_option, nice_option, wait_option


@click.command()
@learner_argument
@click.option("--name", default="", help="This evaluator's name in the log; default: host and process id.")
@nice_option
@module_option
@wait_option
@lifeline_option
def evaluator(access: LearnerEndpoint, name: str, nice: int, modules: tuple[str, ...], wait: float) -> None:
    """Evaluate the run at LEARNER (tcp://host:5555, or an invitation) while it goes on.

    Plays whole episodes that no actor plays, with the weights of the moment, and reports their returns to the learner,
    which keeps the best weights by them.
    """
    from actor.evaluator.daemon import run

    logs.setup("evaluator")
    give_way(nice)
    finish(run(access, name=name, modules=modules, wait=wait))
