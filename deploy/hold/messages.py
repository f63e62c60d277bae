"""What a launcher and a holder say to each other: a JSON object per line, over ssh's standard input and output."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from common.errors import WireError
from common.wire.messages import MAX_NAME, MAX_TEXT

PROTOCOL = 1
"""Raised by one whenever a message changes its meaning; unequal numbers do not talk."""
MAX_LINE = 2**21
"""Bytes: 4096 slots with how each actor ended."""
SlotNumber = Annotated[int, Meta(ge=0, lt=4096)]
Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
Word = Annotated[str, Meta(max_length=MAX_TEXT)]


class Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag=str.lower):
    """Base of all."""


class Greeting(Line, frozen=True):
    """launcher -> holder, first of all: who I am."""

    protocol: int
    launcher: Name
    learner: Name
    """Its address; with the launcher's name it says which holder is meant."""
    options: Annotated[list[Word], Meta(max_length=64)] = []
    """More words for an actor's command line."""
    lease_seconds: Annotated[float, Meta(gt=0)] = 600.0


class Start(Line, frozen=True):
    """launcher -> holder: start the actor of this slot; nothing if it runs."""

    slot: SlotNumber
    name: Name


class Stop(Line, frozen=True):
    """launcher -> holder: ask it to leave, or kill it."""

    slot: SlotNumber
    kill: bool = False


class Ping(Line, frozen=True):
    """launcher -> holder: I am here. Answered in kind."""


class Gone(Line, frozen=True):
    """holder -> launcher: this actor ended."""

    slot: SlotNumber
    exit_code: int
    last_words: str = ""


class Holding(Line, frozen=True):
    """holder -> launcher, answering the greeting: what runs here, and how those ended that do not."""

    running: list[SlotNumber]
    gone: list[Gone] = []


class Started(Line, frozen=True):
    """holder -> launcher: the start came through."""

    slot: SlotNumber


class Refused(Line, frozen=True):
    """holder -> launcher: not you, or not any more."""

    why: str


AnyLine = Greeting | Start | Stop | Ping | Gone | Holding | Started | Refused
_decoder: msgspec.json.Decoder[AnyLine] = msgspec.json.Decoder(AnyLine)


def encode(line: AnyLine) -> bytes:
    """With its end."""
    return msgspec.json.encode(line) + b"\n"


def decode(raw: bytes) -> AnyLine:
    """Raises WireError for what is no message."""
    try:
        return _decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise WireError(f"no line of a holder: {error}") from None


class Lines:
    """Bytes in, whole messages out."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._rest = b""

    def feed(self, raw: bytes) -> list[AnyLine]:
        """Raises WireError for what is no message, or longer than one."""
        *whole, self._rest = (self._rest + raw).split(b"\n")
        if len(self._rest) > MAX_LINE:
            raise WireError(f"a line longer than {MAX_LINE} bytes")
        return [decode(line) for line in whole if line.strip()]
