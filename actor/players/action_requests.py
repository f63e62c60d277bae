"""Tracks which groups of environments wait for actions and which have them: messages and time in, messages out.

    begins --Observe--> waiting --Act--> ready --step, Observe--> waiting
       any  --welcome, failed step--> begins

After a welcome every group begins anew, because the learner may have forgotten it.
"""

from collections import deque

from actor.outbox import Outbox, Send
from actor.rollout_summary import RolloutSummary
from common.wire.messages import Act, Observe, Welcome

RESEND_SECONDS = 2.0
"""Time after which an unanswered `observe` is sent again; the learner knows it by its step and uses it only once."""


class ActionRequests:
    """The requests of one actor's groups to one learner."""

    def __init__(self, groups: int, welcome: Welcome, outbox: Outbox) -> None:
        self._steps = [0] * groups
        self._outbox = outbox
        self.welcomed(welcome)

    @property
    def ready(self) -> int | None:
        """The group whose turn it is to step or to begin; None: all groups wait for actions."""
        return self._ready[0] if self._ready else None

    def begins(self, group: int) -> bool:
        """Returns whether the group has no actions to take yet, so that it only sends its observations."""
        return group in self._beginning

    def welcomed(self, welcome: Welcome) -> None:
        self._welcome = welcome
        self._outbox.clear()
        self._ready = deque(range(len(self._steps)))
        self._beginning = set(self._ready)

    def failed(self, group: int) -> None:
        """The step of `group`, whose turn it was, failed: it begins anew, after the other groups' turns."""
        self._ready.remove(group)
        self._ready.append(group)
        self._beginning.add(group)

    def ask(self, group: int, body: bytes, summary: RolloutSummary) -> None:
        """Puts a message with the group's observations (packed in `body`) into the outbox; the group then waits."""
        self._ready.remove(group)
        self._steps[group] += 1
        message = Observe(
            run=self._welcome.run,
            epoch=self._welcome.epoch,
            group=group,
            step=self._steps[group],
            begins=group in self._beginning,
            steps=summary.steps,
            emulator_frames=summary.emulator_frames,
            episodes=summary.episodes,
        )
        self._beginning.discard(group)
        self._outbox.add(group, Send(message, body), RESEND_SECONDS)

    def answered(self, act: Act) -> bool:
        """Returns whether these are the actions that their group waits for; if so, the group becomes ready."""
        if act.group >= len(self._steps) or act.step != self._steps[act.group] or not self._outbox.remove(act.group):
            return False
        self._ready.append(act.group)
        return True
