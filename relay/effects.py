"""What the relay's core asks its shell to do, in order, before the shell calls the core again.

Effects towards the learner are an actor's, effects towards the site are a learner's; the relay's own is here.
"""

from dataclasses import dataclass

from actor.effects import Leave
from actor.outbox import Send as ToLearner
from learner.effects import Disconnect, Log, Publish
from learner.effects import Send as ToSite
from learner.run import RunSpec


@dataclass(frozen=True)
class Serve:
    """Subscribe to the learner's broadcast on `weights_port`, and listen to the site, for the run in `spec`."""

    weights_port: int
    spec: RunSpec


Effect = ToLearner | ToSite | Disconnect | Publish | Log | Serve | Leave
