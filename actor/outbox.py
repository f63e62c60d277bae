"""Messages sent and not answered: kept with their bodies, and sent again until an answer comes."""

import math
from dataclasses import dataclass

from common.wire.frames import Buffer
from common.wire.messages import AnyMessage

UNSENT_SECONDS = 1.0
"""Before a message that could not be sent is tried again, if no new connection is seen before."""


@dataclass(frozen=True)
class Send:
    """Send a message. It is lost if there is no connection, or if the network's queue is full."""

    message: AnyMessage
    body: Buffer | None = None
    wait: bool = False
    """If the queue is full, wait a moment for room: nothing sends this message again."""


class Outbox:
    """Unanswered messages by number: the sequence number of a contribution, or an environment group's."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Send, float, float]] = {}
        """Message, seconds between two sends, time of the next."""

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def deadline(self) -> float:
        return min((due for *_, due in self._kept.values()), default=math.inf)

    def add(self, number: int, send: Send, resend_seconds: float) -> None:
        """Keeps a message that is due at once, and then every `resend_seconds`."""
        self._kept[number] = (send, resend_seconds, -math.inf)

    def remove(self, number: int) -> bool:
        """A message was answered; False: there is none with this number."""
        return self._kept.pop(number, None) is not None

    def due(self, now: float, *, all_of_them: bool = False) -> list[Send]:
        """The messages to send now; all of them after a lost connection."""
        sends = []
        for number, (send, seconds, due) in self._kept.items():
            if due <= now or all_of_them:
                sends.append(send)
                self._kept[number] = (send, seconds, now + seconds)
        return sends

    def unsent(self, now: float, send: Send) -> None:
        """This message, if it is kept, could not be sent: it is due again soon."""
        for number, (kept, seconds, due) in self._kept.items():
            if kept is send:
                self._kept[number] = (kept, seconds, min(due, now + UNSENT_SECONDS))

    def clear(self) -> None:
        self._kept.clear()
