"""The driver: a process beside the launcher that is connected to Ray. Requests and answers are lines of JSON.

It is a process of its own because Ray ends every connected process when its head is gone, and has threads and signal
handlers of its own. When the driver ends, for whatever reason, Ray ends the actors that it started.
"""

import contextlib
import os
import re
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import click
import msgspec

from common.errors import EXIT_CONFIGURATION, EXIT_DONE, EXIT_TRY_LATER
from common.host.service import logs
from deploy.arguments import lifeline_option
from deploy.backends.base import Ended, actor_name
from deploy.backends.ray_seat import Seat
from deploy.backends.runner import last_line

PATIENCE_SECONDS = 30.0
"""Actors that have waited for room longer than this are reported."""
_RESULT_SECONDS = 10.0
_WORDS = 200
_NUMBER = re.compile(r"\b(?=\w*\d)[0-9a-f]{16,}\b")
_FOREIGN = ("ModuleNotFoundError", "failed to import on the worker")
"""Phrases in Ray's errors which mean that the worker has no a3cd."""


class Plan(msgspec.Struct, frozen=True):
    """The first line that the driver reads: where Ray is, and how actors are started there."""

    address: str
    launcher: str
    words: tuple[str, ...]
    """Arguments of a3cd."""
    cpus: float = 1.0
    memory: int = 0
    """Bytes; 0: not counted."""
    resources: dict[str, float] = {}
    runtime_env: dict[str, Any] = {}


class Ask(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request: the slots in which to start, stop and kill actors."""

    start: tuple[int, ...] = ()
    stop: tuple[int, ...] = ()
    kill: tuple[int, ...] = ()


class Answer(msgspec.Struct, frozen=True):
    alive: frozenset[int] = frozenset()
    starting: frozenset[int] = frozenset()
    ended: tuple[Ended, ...] = ()
    note: str = ""
    refused: str = ""
    """Why there is no connection to Ray, so that the driver ends; empty: there is one."""


@dataclass
class _Taken:
    """A seat that Ray was asked for."""

    handle: Any
    placed: Any
    """Ray's reference to the name of the seat's host."""
    played: Any
    """Ray's reference to how the actor ended."""
    since: float
    host: str = ""
    """The name of its host; empty: Ray has found no room yet."""
    killed: bool = False


class Seats:
    """The actors by slot; `ray`: the module, connected; `make`: asks Ray for a seat."""

    def __init__(
        self, ray: Any, make: Callable[[], Any], plan: Plan, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ray, self._make, self._plan, self._clock = ray, make, plan, clock
        self._taken: dict[int, _Taken] = {}
        self._lost: Counter[str] = Counter()

    def ask(self, ask: Ask) -> Answer:
        now = self._clock()
        for slot in ask.start:
            if slot not in self._taken:
                self._taken[slot] = self._start(now, slot)
        ended = [*self._stop(ask.stop, kill=False), *self._stop(ask.kill, kill=True)]
        ended += self._look()
        starting = frozenset(slot for slot, seat in self._taken.items() if not seat.host)
        return Answer(frozenset(self._taken), starting, tuple(ended), self._note(now))

    def close(self) -> None:
        """Says goodbye, so that Ray frees everything at once."""
        self._ray.shutdown()

    def _start(self, now: float, slot: int) -> _Taken:
        handle = self._make()
        name = actor_name(self._plan.launcher, slot)
        placed = handle.host.remote()
        return _Taken(handle, placed, handle.run.remote([*self._plan.words, "--name", name]), now)

    def _stop(self, slots: Sequence[int], kill: bool) -> Iterator[Ended]:
        """Stops or kills actors, and yields those that are gone at once.

        These are actors without room yet, and those that were to be killed before, whose host may never answer.
        """
        for slot in slots:
            seat = self._taken.get(slot)
            if seat is None:
                continue
            if not seat.host or seat.killed:
                self._free(slot)
                yield Ended(slot, EXIT_DONE)
            else:
                seat.killed = kill
                seat.handle.stop.remote(kill)

    def _look(self) -> list[Ended]:
        seats = list(self._taken.values())
        done = self._done([seat.played for seat in seats] + [seat.placed for seat in seats if not seat.host])
        ended = []
        for slot, seat in list(self._taken.items()):
            if seat.played in done:
                ended.append(self._result(slot, seat))
                self._free(slot)
            elif seat.placed in done:
                with contextlib.suppress(self._ray.exceptions.RayError):  # lost: soon its other reference says so, too
                    seat.host = str(self._ray.get(seat.placed, timeout=_RESULT_SECONDS))
        return ended

    def _done(self, references: list[Any]) -> set[Any]:
        if not references:
            return set()
        return set(self._ray.wait(references, num_returns=len(references), timeout=0)[0])

    def _result(self, slot: int, seat: _Taken) -> Ended:
        """How an actor ended. One that Ray lost, with a host or by its own choice, counts as no failure."""
        errors = self._ray.exceptions
        try:
            code, words = self._ray.get(seat.played, timeout=_RESULT_SECONDS)
            return Ended(slot, code, words)
        except errors.RuntimeEnvSetupError as error:
            return Ended(slot, EXIT_CONFIGURATION, f"ray: no runtime environment: {_said(error)}")
        except errors.RayError as error:
            if any(word in str(error) for word in _FOREIGN):
                where = seat.host or "a host"
                why = last_line(str(error))  # the end of a traceback
                return Ended(slot, EXIT_CONFIGURATION, f"ray: a3cd is not installed for Ray on {where}: {why}")
            why = f"{type(error).__name__}: {_said(error)}"
            self._lost[f"lost on {seat.host or 'the way'}: {why}"] += 1
            return Ended(slot, EXIT_DONE, f"ray: {why}")

    def _free(self, slot: int) -> None:
        """Gives the seat back; what still runs there ends with it."""
        self._ray.kill(self._taken.pop(slot).handle)

    def _note(self, now: float) -> str:
        """What was lost since the last note, and how many actors wait for room."""
        notes = [f"{count} x {text}" if count > 1 else text for text, count in self._lost.items()]
        self._lost.clear()
        waiting = sum(not seat.host and now - seat.since >= PATIENCE_SECONDS for seat in self._taken.values())
        if waiting:
            notes.append(f"{waiting} waiting for room: {self._wanted} each (--request)")
        return "; ".join(f"ray: {note}" for note in notes)

    @property
    def _wanted(self) -> str:
        plan = self._plan
        memory = {"memory": f"{plan.memory >> 20}Mi"} if plan.memory else {}
        wanted = {"cpu": f"{plan.cpus:g}", **memory, **{key: f"{value:g}" for key, value in plan.resources.items()}}
        return ", ".join(f"{key}={value}" for key, value in wanted.items())


def _said(error: Exception) -> str:
    """Ray's words in one line, without the ids in them, so that equal losses are counted together."""
    return logs.printable(" ".join(_NUMBER.sub("", str(error)).split()))[:_WORDS]


def connect(plan: Plan) -> Seats:
    """Connects to Ray; raises whatever Ray raises."""
    import ray

    ray.init(
        address=plan.address,
        runtime_env=plan.runtime_env or None,
        log_to_driver=False,
        logging_level="ERROR",
    )
    # SPREAD: actors that share a host gain nothing from an idle one. No restarts by Ray: the launcher decides on them.
    make = ray.remote(Seat).options(
        num_cpus=plan.cpus,
        memory=plan.memory or None,
        resources=plan.resources or None,
        scheduling_strategy="SPREAD",
        max_restarts=0,
        max_concurrency=2,
    )
    return Seats(ray, make.remote, plan)


def serve(channel: socket.socket, connect: Callable[[Plan], Seats] = connect) -> int:
    """Answers the launcher until it closes the channel; returns the exit code."""
    with channel, channel.makefile("rwb") as lines:

        def say(answer: Answer) -> None:
            lines.write(msgspec.json.encode(answer) + b"\n")
            lines.flush()

        try:
            seats = connect(msgspec.json.decode(lines.readline(), type=Plan))
        except Exception as error:  # Ray raises many kinds
            say(Answer(refused=f"{type(error).__name__}: {_said(error)}"))
            return EXIT_TRY_LATER
        say(Answer())
        while line := lines.readline():
            say(seats.ask(msgspec.json.decode(line, type=Ask)))
    seats.close()
    return EXIT_DONE


@click.command(hidden=True)
@click.argument("channel", type=int)
@lifeline_option
def ray_driver(channel: int) -> None:
    """Connect to Ray for a launcher, which speaks through an inherited socket."""
    code = serve(socket.socket(fileno=channel))
    os._exit(code)  # Ray's threads may delay a usual exit; the cluster notices the closed connection
