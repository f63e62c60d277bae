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


@dataclass
class _Kept:
    send: Send
    seconds: float
    """Between two sends."""
    due: float = -math.inf
    """Time of the next."""
    under_way: int = 0
    """Bytes that have not arrived yet, as far as is known."""


class Outbox:
    """Unanswered messages by number: the sequence number of a contribution, or an environment group's."""

    def __init__(self) -> None:
        self._kept: dict[int, _Kept] = {}
        self._counts = False
        """Whether anybody tells what has arrived."""

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def deadline(self) -> float:
        return min((one.due for one in self._kept.values()), default=math.inf)

    def add(self, number: int, send: Send, resend_seconds: float) -> None:
        """Keeps a message that is due at once, and then every `resend_seconds`."""
        self._kept[number] = _Kept(send, resend_seconds)

    def remove(self, number: int) -> bool:
        """A message was answered; False: there is none with this number."""
        return self._kept.pop(number, None) is not None

    def due(self, now: float, *, all_of_them: bool = False) -> list[Send]:
        """The messages to send now; all that are not under way when a learner may have missed them."""
        sends = []
        for one in self._kept.values():
            if one.due <= now or (all_of_them and not (self._counts and one.under_way)):
                sends.append(one.send)
                one.due, one.under_way = now + one.seconds, len(one.send.body or b"")
        return sends

    def arrived(self, now: float, count: int) -> None:
        """So many more bytes are at the other end: what is still under way need not be sent again meanwhile.

        A long message takes a slow link longer than it is worth waiting for an answer; another copy would take as long.
        """
        moves = count > 0
        self._counts = self._counts or moves
        for one in self._kept.values():
            if moves and one.under_way:
                one.due = now + one.seconds
            taken = min(count, one.under_way)
            one.under_way, count = one.under_way - taken, count - taken

    def disconnected(self) -> None:
        """What was under way is lost."""
        for one in self._kept.values():
            one.under_way = 0

    def unsent(self, now: float, send: Send) -> None:
        """This message, if it is kept, could not be sent: it is due again soon."""
        for one in self._kept.values():
            if one.send is send:
                one.due, one.under_way = min(one.due, now + UNSENT_SECONDS), 0

    def clear(self) -> None:
        self._kept.clear()
