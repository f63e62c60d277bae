"""The interface of the backends: the ways to start actors."""

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Ended:
    slot: int
    exit_code: int
    """As in a shell: 128 + N after signal N, 127 if it could not be started."""
    last_words: str = ""
    """The last lines it wrote, the newest last."""


@dataclass(frozen=True)
class Observation:
    """Slots by the state of their actor."""

    alive: frozenset[int] = frozenset()
    """Slots whose actor exists, perhaps in a queue."""
    starting: frozenset[int] = frozenset()
    """Those of `alive` whose actor is not at work yet."""
    note: str = ""
    """One line for the operator; empty: nothing to say."""
    unsure: bool = False
    """Whether there may be actors that it does not show."""


@dataclass(frozen=True)
class Requests:
    """Slots in which a backend is to start, stop or kill actors."""

    start: frozenset[int] = frozenset()
    stop: frozenset[int] = frozenset()
    kill: frozenset[int] = frozenset()
    planned: int | None = None
    """Number of actors wanted in all; None: the learner has not ordered any number yet."""

    @property
    def slots(self) -> frozenset[int]:
        return self.start | self.stop | self.kill


class Backend(ABC):
    """Starts, stops and observes actors by slot number.

    The calls may block, so `BackgroundLoop` makes them on a thread of its own. They raise ToolError when a tool or a
    host fails; an actor that fails raises nothing.
    """

    interval: float = 1.0
    """Seconds between two observations."""
    changed: Callable[[], None] = staticmethod(lambda: None)
    """Set by the owner; the backend calls it, on any thread, when an observation may be worthwhile at once."""
    outlives = False
    """Whether the actors go on when the launcher ends, so that the next launcher finds them."""

    def request(self, requests: Requests) -> None:
        """Carries out requests, which rest on an observation made after the requests before them."""
        if requests.stop:
            self.stop(sorted(requests.stop))
        if requests.kill:
            self.stop(sorted(requests.kill), kill=True)
        if requests.start:
            self.start(sorted(requests.start))

    @abstractmethod
    def shown(self, slot: int) -> str:
        """What `start` does for a slot, as a command for a person to read."""

    @abstractmethod
    def start(self, slots: Sequence[int]) -> None: ...

    @abstractmethod
    def stop(self, slots: Sequence[int], kill: bool = False) -> None:
        """Asks these actors to leave, or kills them; a service manager that kills by itself is only asked again."""

    @abstractmethod
    def observe(self) -> Observation: ...

    @abstractmethod
    def exit_status(self, slot: int) -> Ended:
        """Says how an actor ended that the last observation does not show any more."""

    def close(self) -> None:  # noqa: B027
        """Kills the actors, unless they outlive the launcher."""


@dataclass(frozen=True)
class Place:
    """Where actors run: this machine, a cluster, or one host of several."""

    backend: Backend
    slots: int
    name: str = ""
    """Name of the host, where there are several; else empty."""
    actors: str = ""
    """What the names of its actors begin with, as in `actor_name`; empty: others name them."""


def actor_name(launcher: str, slot: int) -> str:
    """The name of the actor in a slot; its successor has the same name."""
    return f"{launcher}-{slot}"


def group_name(launcher: str, learner: str) -> str:
    """A name for all units or jobs of a launcher for one learner, of letters, digits and . _ - only.

    `learner`: its own address, not that of a relay, so that a launcher finds its actors again after a relay has come
    between them.
    """
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", launcher)[:64]
    return f"a3cd-{plain}-{hashlib.sha256(f'{launcher} {learner}'.encode()).hexdigest()[:8]}"
