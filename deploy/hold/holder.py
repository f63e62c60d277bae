"""The holder: starts and stops actors on its host for one launcher, and outlives the connection to it.

Without a launcher the actors play on for the launcher's lease, ten minutes by default, and are then ended. A launcher
that is restarted, or a cable that is mended, finds them; and one that never comes back does not leave programs behind
on somebody's host that nobody can stop from afar. The launcher counts on it: when it has not reached this host for
longer than the lease, the actors here are no more, and it may start others elsewhere without doubling any.
"""

from __future__ import annotations

import contextlib
import logging
import math
import selectors
import signal
import socket
import time
from collections.abc import Callable
from logging.handlers import RotatingFileHandler
from pathlib import Path

from common.errors import EXIT_DONE, WireError
from common.host.service.signals import Signals
from deploy.backends.base import Ended
from deploy.backends.process import ProcessBackend, actor_command
from deploy.hold import folder as folders
from deploy.hold import messages

IDLE_SECONDS = 10.0
"""Without actors and without a launcher."""
GRACE_SECONDS = 3.0
"""From SIGTERM to SIGKILL, when the lease is over."""
_REAP_SECONDS = 0.1
_CHUNK = 65536
_WORDS_BYTES = 300
"""Of an actor's last words in a message; all of them are in the log."""
_SEND_SECONDS = 2.0
_LOG_BYTES = 1_000_000
_log = logging.getLogger(__name__)

ActorCommand = Callable[[messages.Greeting, str], list[str]]


def command(greeting: messages.Greeting, name: str) -> list[str]:
    """Of the actor `name`; its credential it finds on its own host, by the learner's address."""
    return actor_command([greeting.learner, *greeting.options], greeting.launcher, name)


def serve(folder: Path, lock: int, listener: int, actor: ActorCommand = command) -> int:
    """Runs the holder of a folder whose lock and listening socket were inherited; returns the exit code."""
    handler = RotatingFileHandler(folders.log_path(folder), maxBytes=_LOG_BYTES, backupCount=1)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)
    with Signals() as signals, socket.socket(fileno=listener) as listening:
        holder = Holder(listening, actor, signals=signals, lock=lock)
        try:
            holder.run()
        except Exception:
            _log.exception("the holder failed")
            raise
        finally:
            with contextlib.suppress(OSError):
                Path(folders.socket_path(folder)).unlink()
            holder.close()
            _log.info("the holder ends")
    return EXIT_DONE


class _Client:
    """A connection; the launcher's, once it has greeted."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.lines = messages.Lines()


class Holder:
    """One thread; its actors are children that end with it."""

    def __init__(
        self, listener: socket.socket, actor: ActorCommand, *, signals: Signals | None = None, lock: int | None = None
    ) -> None:
        """`actor`: its command; `lock` is inherited by every actor."""
        self._listener = listener
        self._signals = signals
        self._names: dict[int, str] = {}
        self._gone: dict[int, Ended] = {}
        """How the last actor of a slot ended, until another is started there."""
        self._greeting: messages.Greeting | None = None
        self._launcher: _Client | None = None
        self._heard = time.monotonic()
        self._ending_since = math.inf
        self._backend = ProcessBackend(
            lambda slot: actor(self._known, self._names[slot]),
            lambda slot: self._names[slot],
            say=_log.info,
            keep_open=() if lock is None else (lock,),
        )
        self._selector = selectors.DefaultSelector()
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ)
        if signals is not None:
            self._selector.register(signals, selectors.EVENT_READ)

    @property
    def _known(self) -> messages.Greeting:
        assert self._greeting is not None
        return self._greeting

    def run(self) -> None:
        """Until there is nothing to hold and nobody to hold it for."""
        while not self._over(time.monotonic()):
            for key, _ in self._selector.select(_REAP_SECONDS if self._backend.running else 1.0):
                if key.fileobj is self._listener:
                    self._accept()
                elif isinstance(key.data, _Client):
                    self._read(key.data)
            self._reap()

    def close(self) -> None:
        """Ends what still runs."""
        self._backend.close()
        for key in list(self._selector.get_map().values()):
            if isinstance(key.data, _Client):
                self._drop(key.data)
        self._selector.close()

    def _over(self, now: float) -> bool:
        if self._signals is not None:
            self._signals.drain()
            if self._signals.requested is not None:
                self._end(now, f"stopped by {signal.Signals(self._signals.requested).name}")
        quiet = now - self._heard
        lease = self._greeting.lease_seconds if self._greeting else IDLE_SECONDS
        if quiet >= lease and self._backend.running:
            self._end(now, f"no launcher for {quiet:.0f} s")
        if self._ending_since < math.inf:
            return not self._backend.running or now - self._ending_since >= GRACE_SECONDS
        return self._launcher is None and not self._backend.running and quiet >= min(IDLE_SECONDS, lease)

    def _end(self, now: float, why: str) -> None:
        """Asks all actors to leave, once; `close` kills those that do not."""
        if self._ending_since == math.inf:
            self._ending_since = now
            _log.info(f"ending {len(self._backend.running)} actors: {why}")
            for slot in self._backend.running:
                self._backend.stop(slot)

    def _accept(self) -> None:
        with contextlib.suppress(BlockingIOError):
            connection, _ = self._listener.accept()
            connection.setblocking(False)
            self._selector.register(connection, selectors.EVENT_READ, _Client(connection))

    def _read(self, client: _Client) -> None:
        try:
            raw = client.connection.recv(_CHUNK)
            if not raw:
                self._drop(client)
                return
            for line in client.lines.feed(raw):
                self._take(client, line)
        except BlockingIOError:
            pass
        except WireError as error:
            self._say(client, messages.Refused(str(error)))
            self._drop(client)
        except OSError:
            self._drop(client)

    def _take(self, client: _Client, line: messages.AnyLine) -> None:
        if isinstance(line, messages.Greeting):
            self._greeted(client, line)
        if client is not self._launcher:
            return  # displaced, or it never greeted
        self._heard = time.monotonic()
        match line:
            case messages.Start(slot=slot, name=name) if self._ending_since == math.inf:
                if slot not in self._backend.running:
                    self._names[slot] = name
                    self._gone.pop(slot, None)
                    self._backend.start(slot)
                self._say(client, messages.Started(slot))
            case messages.Stop(slot=slot, kill=kill):
                self._backend.stop(slot, kill)
            case messages.Ping():
                self._say(client, line)
            case _:
                pass

    def _greeted(self, client: _Client, greeting: messages.Greeting) -> None:
        """The newest connection is the launcher's: an older one may be dead, and TCP not know it yet."""
        if greeting.protocol != messages.PROTOCOL:
            raise WireError(f"the holder here speaks protocol {messages.PROTOCOL}, the launcher {greeting.protocol}")
        if self._launcher is not None and self._launcher is not client:
            self._say(self._launcher, messages.Refused("another launcher of the same name took over: give it another"))
            self._drop(self._launcher)
        self._launcher, self._greeting = client, greeting
        gone = [messages.Gone(end.slot, end.exit_code, end.last_words) for end in self._gone.values()]
        self._say(client, messages.Holding(sorted(self._backend.running), gone))

    def _reap(self) -> None:
        for ended in self._backend.poll():
            words = ended.last_words.encode()[-_WORDS_BYTES:].decode(errors="ignore")
            self._gone[ended.slot] = Ended(ended.slot, ended.exit_code, words)
            _log.info(f"{self._names[ended.slot]} ended with exit code {ended.exit_code}")
            if self._launcher is not None:
                self._say(self._launcher, messages.Gone(ended.slot, ended.exit_code, words))

    def _say(self, client: _Client, line: messages.AnyLine) -> None:
        """To one that reads; one that does not is dropped, and learns all when it comes back."""
        try:
            client.connection.settimeout(_SEND_SECONDS)
            client.connection.sendall(messages.encode(line))
            client.connection.setblocking(False)
        except OSError:
            self._drop(client)

    def _drop(self, client: _Client) -> None:
        if client is self._launcher:
            self._launcher = None
        if client.connection.fileno() >= 0:
            self._selector.unregister(client.connection)
            client.connection.close()
