"""What the relay's core wants done. The shell does it, in order, before it calls the core again.

Towards the learner these are an actor's effects, towards the site a learner's; those of the relay itself are here.
"""

from dataclasses import dataclass

from actor.effects import Leave
from actor.outbox import Send as ToLearner
from learner.effects import Disconnect, Log, Publish
from learner.effects import Send as ToSite
from learner.run import RunSpec


@dataclass(frozen=True)
class Serve:
    """Hear the learner's broadcast on this port, and listen to the site, for a run of this kind."""

    weights_port: int
    spec: RunSpec


Effect = ToLearner | ToSite | Disconnect | Publish | Log | Serve | Leave
