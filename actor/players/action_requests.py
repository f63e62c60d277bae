"""Which groups of environments wait for actions and which have them: messages and time in, messages out.

    begins --Observe--> waiting --Act--> ready --step, Observe--> waiting
       any  --welcome, failed step--> begins

Whoever is welcomed begins every group anew: the learner may have forgotten them.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

from common.rl.episode import Episode
from common.wire.messages import Act, Observe, Welcome

RESEND_SECONDS = 2.0
"""An unanswered `observe` is sent again after so long; the learner knows it by its step, and steps nothing twice."""


@dataclass(frozen=True)
class Tally:
    """What is told of a step besides its body."""

    steps: int = 0
    emulator_frames: int = 0
    episodes: list[Episode] = field(default_factory=list)


class Asking:
    """The groups of one actor towards one learner."""

    def __init__(self, groups: int) -> None:
        """Nothing is asked before a welcome."""
        self._welcome: Welcome | None = None
        self._steps = [0] * groups
        self._ready: deque[int] = deque()
        self._beginning: set[int] = set()
        self._waiting: dict[int, tuple[Observe, bytes, float]] = {}

    @property
    def ready(self) -> int | None:
        """The group whose turn it is to step, or to begin."""
        return self._ready[0] if self._ready else None

    @property
    def deadline(self) -> float:
        """When `due` has something to send again."""
        return min((sent for *_, sent in self._waiting.values()), default=math.inf) + RESEND_SECONDS

    def begins(self, group: int) -> bool:
        """Whether the group has no actions to take: its observations are to be shown as they are."""
        return group in self._beginning

    def welcomed(self, welcome: Welcome) -> None:
        """All groups begin."""
        self._welcome = welcome
        self._waiting.clear()
        self._ready = deque(range(len(self._steps)))
        self._beginning = set(self._ready)

    def failed(self, group: int) -> None:
        """The step of the group whose turn it is came to nothing: it begins, after the others."""
        self._ready.remove(group)
        self._ready.append(group)
        self._beginning.add(group)

    def ask(self, now: float, group: int, body: bytes, tally: Tally) -> Observe:
        """The message that shows what the group's turn led to; it waits from now on."""
        assert self._welcome is not None
        self._ready.remove(group)
        self._steps[group] += 1
        message = Observe(
            run=self._welcome.run,
            epoch=self._welcome.epoch,
            group=group,
            step=self._steps[group],
            begins=group in self._beginning,
            steps=tally.steps,
            emulator_frames=tally.emulator_frames,
            episodes=tally.episodes,
        )
        self._beginning.discard(group)
        self._waiting[group] = (message, body, now)
        return message

    def answered(self, act: Act) -> bool:
        """Whether these are the actions that their group waits for; then it is ready."""
        waiting = self._waiting.get(act.group)
        if waiting is None or waiting[0].step != act.step:
            return False
        del self._waiting[act.group]
        self._ready.append(act.group)
        return True

    def due(self, now: float) -> list[tuple[Observe, bytes]]:
        """What nobody has answered for long, to be sent again."""
        late = [group for group, (*_, sent) in self._waiting.items() if now - sent >= RESEND_SECONDS]
        again = []
        for group in late:
            message, body, _ = self._waiting[group]
            self._waiting[group] = (message, body, now)
            again.append((message, body))
        return again
