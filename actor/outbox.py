"""Messages that await an answer: each is kept with its body, and sent again until the answer comes."""

import math
from dataclasses import dataclass

from common.wire.frames import Buffer
from common.wire.messages import AnyMessage

UNSENT_SECONDS = 1.0
"""Longest time before a message that could not be sent is tried again; a new connection may come sooner."""


@dataclass(frozen=True)
class Send:
    """Send a message. It is lost if there is no connection or the network's queue is full."""

    message: AnyMessage
    body: Buffer | None = None
    wait: bool = False
    """Whether to wait a moment for room if the queue is full, because nothing sends this message again."""


@dataclass
class _Kept:
    send: Send
    seconds: float
    """Interval between two sends."""
    due: float = -math.inf
    """Time of the next send."""
    under_way: int = 0
    """Bytes of the last copy sent that are not known to have arrived yet."""


class Outbox:
    """Unanswered messages by number: the sequence number of a contribution, or the number of an environment group."""

    def __init__(self) -> None:
        self._kept: dict[int, _Kept] = {}
        self._counts = False
        """Whether the shell has ever reported arrived bytes, so that `under_way` can be trusted."""

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def deadline(self) -> float:
        return min((one.due for one in self._kept.values()), default=math.inf)

    def add(self, number: int, send: Send, resend_seconds: float) -> None:
        """Keeps a message that is due at once, and then every `resend_seconds`."""
        self._kept[number] = _Kept(send, resend_seconds)

    def remove(self, number: int) -> bool:
        """Forgets an answered message; False: there is none with this number."""
        return self._kept.pop(number, None) is not None

    def due(self, now: float, *, all_of_them: bool = False) -> list[Send]:
        """Returns the messages to send now.

        all_of_them: also those that are not due, except such as are still under way; the learner may have missed them.
        """
        sends = []
        for one in self._kept.values():
            if one.due <= now or (all_of_them and not (self._counts and one.under_way)):
                sends.append(one.send)
                one.due, one.under_way = now + one.seconds, len(one.send.body or b"")
        return sends

    def arrived(self, now: float, count: int) -> None:
        """`count` more bytes have reached the other end: while bytes arrive, messages under way are not sent again.

        On a slow link a long message may take longer than the resend interval, and another copy would take as long.
        """
        moves = count > 0
        self._counts = self._counts or moves
        for one in self._kept.values():
            if moves and one.under_way:
                one.due = now + one.seconds
            taken = min(count, one.under_way)
            one.under_way, count = one.under_way - taken, count - taken

    def disconnected(self) -> None:
        """The connection was lost, and with it whatever was under way."""
        for one in self._kept.values():
            one.under_way = 0

    def unsent(self, now: float, send: Send) -> None:
        """`send` failed: if its message is kept, it is due again soon."""
        for one in self._kept.values():
            if one.send is send:
                one.due, one.under_way = min(one.due, now + UNSENT_SECONDS), 0

    def clear(self) -> None:
        self._kept.clear()
