"""The learner daemon: one thread that owns both sockets, the clock and the files, round the pure core."""

from __future__ import annotations

import logging
import math
import socket
import time
from contextlib import ExitStack
from pathlib import Path

import msgspec
import zmq

from common.errors import EXIT_DONE, A3cdError, UnavailableError, WireError
from common.host.addresses import Address
from common.host.atomic_file import replace_file
from common.host.service.logs import Limited, again
from common.host.service.notify import Notifier
from common.host.service.signals import Signals
from common.run.folder import Checkpoint
from common.run.status import summary
from common.settings.sections import Settings
from common.wire import sockets
from common.wire.frames import pack, split
from learner.authentication import Doorkeeper, Guard
from learner.effects import Effect, Ending, Finish, Log, Publish, Record, Save, Send
from learner.record import curve
from learner.record import run_lock as folders
from learner.record.checkpoint import CheckpointWriter
from learner.record.metrics import MetricsWriter
from learner.record.run_lock import OwnedRun

_log = logging.getLogger("learner")
REPEAT_SECONDS = 60.0
"""A line that repeats is written once in so long, with the count of what was held back."""
FAREWELL_MS = 300
"""The last messages have so long to leave."""
LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def run(
    settings: Settings | None,
    *,
    bind: Address,
    guard: Guard | None,
    run_dir: Path,
    resume: bool,
    listeners: tuple[socket.socket, socket.socket] | None = None,
) -> int:
    """Trains until a limit is reached or a signal comes; returns the exit code.

    `guard`: whom it lets in; None: everybody. `settings` may be None to resume with the run's own.
    `listeners` are those of `bind` and the next port, where they are there already.
    Raises A3cdError for what cannot be.
    """
    with Signals() as signals, ExitStack() as stack:
        listeners = listeners or sockets.reserve_pair(bind)
        for listener in listeners:
            stack.callback(listener.close)
        owned = folders.resume(run_dir, settings) if resume else folders.create(run_dir, settings or Settings())
        stack.callback(owned.close)
        try:
            daemon = _Daemon(owned, listeners, guard, signals)
        except A3cdError:
            if not resume:
                owned.discard()  # it never was a run: the same command, mended, must find the folder free
            raise
        return daemon.run()


def _owner(frame: zmq.Frame) -> str:
    """Name of the key that this message came in with."""
    return str(frame.get("User-Id"))


class _Daemon:
    def __init__(
        self, owned: OwnedRun, listeners: tuple[socket.socket, socket.socket], guard: Guard | None, signals: Signals
    ) -> None:
        from learner.build import Assembled  # seconds of imports: only now that ports and folder are ours

        self._signals, self._folder = signals, owned.folder
        port = listeners[1].getsockname()[1]
        parts = Assembled(owned, self._last_checkpoint(owned), port, time.monotonic())
        self._core, self._store, self._ledger, self._plan = parts.core, parts.store, parts.ledger, parts.plan
        owned.keep(parts.settings)
        self._checkpoints = CheckpointWriter(
            owned.folder, keep=parts.settings.checkpoint.keep, best=parts.settings.checkpoint.best
        )
        self._metrics = MetricsWriter(owned.folder)
        self._limited = Limited(REPEAT_SECONDS)
        self._notifier = Notifier()
        self._drain_seconds = parts.settings.exchange.drain_ms / 1e3
        self._finish: Finish | None = None
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._max_bytes, self._listeners = parts.max_bytes, listeners
        self._door = None if guard is None else Doorkeeper(self._context, guard, REPEAT_SECONDS)
        self._poller = zmq.Poller()
        self._poller.register(self._signals, zmq.POLLIN)
        if self._door is not None:
            self._poller.register(self._door.socket, zmq.POLLIN)
        self._open()
        address = listeners[0].getsockname()
        self._listening = f"tcp://{address[0]}:{address[1]}"

    def _open(self) -> None:
        self._router = sockets.router(self._context, self._max_bytes)
        self._publisher = sockets.publisher(self._context)
        for zsocket, listener in zip((self._router, self._publisher), self._listeners, strict=True):
            if self._door is not None:
                self._door.guard(zsocket)
            sockets.bind(zsocket, listener.dup())  # ours stays, for the next
        self._poller.register(self._router, zmq.POLLIN)

    def _close(self, linger: int) -> None:
        self._poller.unregister(self._router)
        if self._door is not None:
            self._door.release(self._router, self._publisher)
        self._router.close(linger=linger)
        self._publisher.close(linger=0)

    def _cut_off(self, door: Doorkeeper, now: float) -> None:
        """Ends every connection when a key is not allowed any more: all but its holder are back in a moment.

        ZeroMQ cannot close a single one. What was under way is sent again by whoever gets no answer.
        """
        revoked = door.revoked(now)
        if revoked:
            self._do(self._core.revoke(revoked))
            self._close(linger=FAREWELL_MS)
            self._open()

    @staticmethod
    def _last_checkpoint(owned: OwnedRun) -> Checkpoint | None:
        newest = owned.folder.newest()
        return None if newest is None else newest.read()

    def run(self) -> int:
        """The loop; returns the exit code."""
        plan, counters = self._plan, self._ledger.counters
        _log.info(
            "run %s epoch %d listens on %s%s: %s, %s, %s with %d parameters on %s, folder %s",
            *(
                plan.run,
                plan.epoch,
                self._listening,
                " with keys" if self._door else "",
                plan.settings.environment.id,
                plan.settings.algorithm.kind,
            ),
            *(plan.network, plan.parameters, plan.device, plan.run_dir),
        )
        if counters.frames:
            _log.info(
                "goes on at version %d, %d frames, %d episodes", counters.version, counters.frames, counters.episodes
            )
        self._notifier.ready(f"training {plan.settings.environment.id} on {self._listening}")
        try:
            self._loop()
            return self._end()
        finally:
            self._close(linger=FAREWELL_MS)
            if self._door is not None:
                self._door.close()
            self._context.term()

    def _loop(self) -> None:
        while self._finish is None:
            wait = min(self._core.deadline, self._notifier.deadline) - time.monotonic()
            self._poller.poll(max(0, math.ceil(wait * 1e3)))
            begun = time.monotonic()
            if self._signals.requested is not None:
                self._finish = Finish("stopped", "stopped by a signal")
                self._do(self._core.stop(begun, "stopped", "the learner was stopped; it may come back"))
                return
            if self._door is not None:
                self._door.serve()
                self._cut_off(self._door, begun)
            self._drain(begun)
            self._do(self._core.answer(time.monotonic()))
            now = time.monotonic()
            self._do(self._core.flush(now))
            self._do(self._core.tick(now))
            self._notifier.watchdog(now)
            now = time.monotonic()
            self._ledger.busy.working(now, now - begun)

    def _drain(self, begun: float) -> None:
        """Reads what has come, for a bounded time: gradients keep coming while it reads."""
        now = begun
        while now - begun <= self._drain_seconds and self._finish is None:
            try:
                frames = self._router.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            routing_id, owner = frames[0].bytes, _owner(frames[-1]) if self._door else ""
            now = time.monotonic()
            try:
                message, body = split([frame.buffer for frame in frames[1:]])
            except WireError as error:
                self._do(self._core.malformed(routing_id, error))
                continue
            self._do(self._core.handle(now, routing_id, message, body, owner))

    def _do(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send():
                    self._send(effect)
                case Publish():
                    self._publisher.send(effect.frame, zmq.NOBLOCK, copy=len(effect.frame) < 65536)
                case Record():
                    self._record()
                case Save():
                    self._save()
                case Log():
                    self._say(effect)
                case Finish():
                    self._finish = effect

    def _send(self, effect: Send) -> None:
        frames = [effect.peer, pack(effect.message)]
        if effect.body is not None:
            frames.append(bytes(effect.body))
        try:
            self._router.send_multipart(frames, zmq.NOBLOCK)
        except zmq.ZMQError as error:
            # Gone (EHOSTUNREACH) or not reading (EAGAIN): what matters is asked for again by whoever lives.
            if error.errno not in (zmq.EHOSTUNREACH, zmq.EAGAIN):
                raise

    def _say(self, effect: Log) -> None:
        held = self._limited.admit(effect.key, time.monotonic()) if effect.key else 0
        if held is None:
            return
        _log.log(LEVELS[effect.level], "%s%s", effect.text, again(held))

    def _record(self) -> None:
        now = time.monotonic()
        if not self._store.finite and self._finish is None:
            reason = (
                "the weights are no longer finite: try a smaller optimizer.learning_rate or algorithm.max_grad_norm"
            )
            self._finish = Finish("failed", reason)
            self._do(self._core.stop(now, "failed", reason))
            return
        row = self._ledger.row(now, self._core.peers.actors)
        self._metrics.row(time.time(), row)
        if self._finish is not None:
            return  # what is shown is why it ends
        self._notifier.status(
            f"{row['frames']} frames, {row['episodes']} episodes, return {row['mean_return']}, {row['actors']} actors"
        )

    def _save(self) -> None:
        state = {"model": self._plan.model, "epoch": self._plan.epoch, "counters": self._ledger.saved(time.monotonic())}
        state["moments"] = self._store.moments
        score = self._ledger.window.mean_return if self._ledger.window.full else None
        version = self._ledger.counters.version
        try:
            self._checkpoints.write(version, self._store.vector, self._store.state(), state, score)
        except OSError as error:
            self._say(Log("error", f"checkpoint of version {version} could not be written: {error}", key="checkpoint"))

    def _end(self) -> int:
        assert self._finish is not None
        ending: Ending = self._finish.ending
        _log.info("%s: %s", ending, self._finish.reason)
        self._notifier.stopping(self._finish.reason)
        if ending != "failed":
            self._record()
            self._save()
        status = self._ledger.status(time.monotonic(), self._plan, self._core.peers, whole_run=True)
        self._metrics.close()
        replace_file(self._folder.summary_file, msgspec.json.format(msgspec.json.encode(summary(status)), indent=2))
        curve.draw(self._folder.metrics_file, self._folder.curve, self._plan.settings.environment.id, status.goal)
        if ending == "stopped":
            return self._signals.exit_code
        return EXIT_DONE if ending != "failed" else UnavailableError.exit_code
