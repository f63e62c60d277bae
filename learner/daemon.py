"""The learner daemon: one thread that owns both sockets, the clock and the files, around the pure core."""

import logging
import math
import socket
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import zmq

from common.errors import (
    EXIT_DONE,
    A3cdError,
    DamagedCheckpointError,
    UnavailableError,
    WireError,
)
from common.host.addresses import Address
from common.host.service.logs import Limited, Throttle, again, cut, held_back
from common.host.service.notify import Notifier
from common.host.service.signals import Signals
from common.settings.sections import Settings
from common.wire import sockets
from common.wire.frames import pack, split
from common.wire.messages import AnyMessage, Hello, Status
from learner.authentication import Authenticator, LearnerKeys
from learner.effects import Disconnect, Effect, Finish, Log, Publish, Record, SaveCheckpoint, Send, WriteMetrics
from learner.record import run_lock
from learner.record.gradient_log import GradientLog
from learner.record.run_lock import LockedRun
from learner.record.run_writer import RunWriter

_log = logging.getLogger("learner")
LINES_PER_SECOND = 3.0
"""Lines that peers can cause, all together, after the first LINES_AT_ONCE."""
LINES_AT_ONCE = 100
"""A fleet that joins is seen host by host."""
REPEAT_SECONDS = 60.0
"""A line that repeats is written once in this time, with the number of its repetitions."""
SHARED_BYTES = 2**16
"""A longer frame is not copied for each peer."""
DISMISS_SECONDS = 3.0
"""Longest time in which actors and launchers may say goodbye at the end of a run."""
REMIND_SECONDS = 0.5
"""Between two stops to those that have not."""
FAREWELL_MS = 300
"""Time for the last messages to leave."""
LAST_SAVE_SECONDS = 60.0
"""For the last checkpoint to reach the disk: less than systemd waits for the learner's end."""
CLOSE_SECONDS = 20.0
"""For the summary and the learning curve."""


def run(
    settings: Settings | None,
    *,
    bind: Address,
    keys: LearnerKeys | None,
    run_dir: Path,
    resume: bool,
    listeners: tuple[socket.socket, socket.socket] | None = None,
) -> int:
    """Train until a limit is reached or a signal comes; returns the exit code.

    Args:
        settings: None resumes with the run's own.
        bind: where to listen; weights are published on the next port.
        keys: None: everybody may connect.
        resume: go on with the run in `run_dir` instead of starting one.
        listeners: sockets that listen at `bind` and the next port already.

    Raises A3cdError where the run cannot begin.
    """
    with Signals() as signals, ExitStack() as stack:
        listeners = listeners or sockets.reserve_pair(bind)
        for listener in listeners:
            stack.callback(listener.close)
        locked = run_lock.resume(run_dir, settings) if resume else run_lock.create(run_dir, settings or Settings())
        stack.callback(locked.close)
        try:
            daemon = _Daemon(locked, listeners, keys, signals)
        except A3cdError:
            if not resume:
                locked.discard()  # it never was a run: the same command, corrected, must find the folder free
            raise
        return daemon.run()


class _Daemon:
    def __init__(
        self, run: LockedRun, listeners: tuple[socket.socket, socket.socket], keys: LearnerKeys | None, signals: Signals
    ) -> None:
        damaged: dict[str, DamagedCheckpointError] = {}
        checkpoint = run.folder.newest_read(damaged)
        from learner.build import build  # seconds of imports: only now that ports, folder and checkpoint are ours

        self._core = build(run, checkpoint, listeners[1].getsockname()[1], time.monotonic())
        for name, error in damaged.items():
            self._core.run.stats.warn(f"checkpoint {name} is damaged and was passed over: {error}")
        settings = self._core.run.spec.settings
        run.save_settings(settings)
        self._writer = RunWriter(run.folder, settings.checkpoint, damaged)
        self._signals = signals
        self._gradient_log = GradientLog(run.folder.gradients, keep_mib=settings.record.keep_mib)
        self._limited = Limited(REPEAT_SECONDS)
        self._throttle = Throttle(LINES_PER_SECOND, LINES_AT_ONCE)
        self._notifier = Notifier()
        self._header_bytes = self._core.run.spec.header_bytes
        self._drain_seconds = settings.exchange.drain_ms / 1e3
        self._status: tuple[Status, bytes] | None = None
        self._finish: Finish | None = None
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._listeners = listeners
        self._authenticator = None if keys is None else Authenticator(self._context, keys, REPEAT_SECONDS)
        self._poller = zmq.Poller()
        self._poller.register(signals, zmq.POLLIN)
        if self._authenticator is not None:
            self._poller.register(self._authenticator.socket, zmq.POLLIN)
        self._open()

    def _open(self) -> None:
        self._router = sockets.router(self._context, self._core.max_bytes)
        self._publisher = sockets.publisher(self._context)
        for zsocket, listener in zip((self._router, self._publisher), self._listeners, strict=True):
            if self._authenticator is not None:
                self._authenticator.guard(zsocket)
            sockets.bind(zsocket, listener.dup())  # ours stays, for the next
        self._poller.register(self._router, zmq.POLLIN)

    def _close(self, linger: int) -> None:
        self._poller.unregister(self._router)
        if self._authenticator is not None:
            self._authenticator.release(self._router, self._publisher)
        self._router.close(linger=linger)
        self._publisher.close(linger=0)

    def _authenticate(self, authenticator: Authenticator, now: float) -> None:
        """Answers requests, and ends every connection when a key is not allowed any more.

        ZeroMQ cannot close a single one. All but the key's holder are back in a moment, and send again what was lost.
        """
        authenticator.serve()
        self._core.key_roles = authenticator.roles
        if authenticator.problem:
            self._core.run.stats.warn(authenticator.problem)
        if revoked := authenticator.revoked(now):
            self._do(self._core.revoke(now, revoked))
            self._close(linger=FAREWELL_MS)
            self._open()

    def run(self) -> int:
        spec = self._core.run.spec
        counters = self._core.run.stats.counters
        host, port = self._listeners[0].getsockname()[:2]
        listening = f"tcp://{host}:{port}"
        _log.info(
            f"run {spec.run} epoch {spec.epoch} listens on {listening}{' with keys' if self._authenticator else ''}: "
            f"{spec.settings.environment.id}, {spec.settings.algorithm.kind}, {spec.settings.network.kind} with "
            f"{spec.parameters} parameters on {spec.device}, folder {spec.run_dir}"
        )
        if self._authenticator is None and not Address(host, port).loopback:
            _log.warning(f"without keys: whoever reaches {listening} can take part in this run, and spoil it")
        if counters.frames:
            _log.info(f"resumed at version {counters.version}, {counters.frames} frames, {counters.episodes} episodes")
        self._do(self._core.begin())
        self._notifier.ready(f"training {spec.settings.environment.id} on {listening}")
        try:
            finish = self._loop()
            if finish.ending != "stopped":
                self._dismiss()
            return self._end(finish)
        finally:
            self._writer.close(CLOSE_SECONDS)
            self._gradient_log.close()
            self._close(linger=FAREWELL_MS)
            if self._authenticator is not None:
                self._authenticator.close()
            self._context.term()

    def _loop(self) -> Finish:
        while self._finish is None:
            wait = min(self._core.deadline, self._notifier.deadline) - time.monotonic()
            self._poller.poll(max(0, math.ceil(wait * 1e3)))
            begun = time.monotonic()
            if self._signals.requested is not None:
                self._do(self._core.stop(begun))
                continue
            if self._authenticator is not None:
                self._authenticate(self._authenticator, begun)
            heard_all = self._drain(begun)
            self._heed_writer(begun)
            self._do(self._core.answer(time.monotonic()))
            now = time.monotonic()
            self._do(self._core.flush(now))
            self._do(self._core.tick(now, heard_all=heard_all))
            self._notifier.watchdog(now)
            now = time.monotonic()
            self._core.run.stats.busy.working(now, now - begun)
        return self._finish

    def _dismiss(self) -> None:
        """Tells actors and launchers that the run is over until all have said goodbye, for a bounded time.

        Whoever missed it would wait for a learner that does not come back.
        """
        until = time.monotonic() + DISMISS_SECONDS
        remind = time.monotonic() + REMIND_SECONDS
        while self._core.present and time.monotonic() < until and self._signals.requested is None:
            self._poller.poll(int(1e3 * REMIND_SECONDS / 4))
            if self._authenticator is not None:
                self._authenticator.serve()
            self._drain(time.monotonic())
            now = time.monotonic()
            self._notifier.watchdog(now)
            if now >= remind:
                remind = now + REMIND_SECONDS
                self._do(self._core.remind())

    def _drain(self, begun: float) -> bool:
        """Reads what is there, for a bounded time: more keeps coming while it reads. Returns whether none is left."""
        now = begun
        while now - begun <= self._drain_seconds:
            try:
                frames = self._router.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return True
            routing_id = frames[0].bytes
            key_name = str(frames[-1].get("User-Id")) if self._authenticator else ""
            now = time.monotonic()
            try:
                message, body = split([frame.buffer for frame in frames[1:]], self._header_bytes, by_learner=True)
            except WireError as error:
                self._do(self._core.malformed(routing_id, error))
                continue
            address = str(frames[-1].get("Peer-Address")) if isinstance(message, Hello) else ""
            self._do(self._core.handle(now, routing_id, message, body, key_name, address))
        return False

    def _do(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send():
                    self._send(effect)
                case Disconnect():
                    pass
                case Publish():
                    self._publisher.send(effect.frame, zmq.NOBLOCK, copy=len(effect.frame) < 65536)
                case WriteMetrics():
                    self._write_metrics(effect.row)
                case Record():
                    self._record(effect)
                case SaveCheckpoint():
                    self._save(effect)
                case Log():
                    self._write_log(effect)
                case Finish():
                    self._finish = effect

    def _send(self, effect: Send) -> None:
        frames = [effect.peer, self._packed(effect.message)]
        if effect.body is not None:
            frames.append(effect.body if isinstance(effect.body, bytes) else bytes(effect.body))
        try:
            # A long frame is shared by all that it is sent to.
            self._router.send_multipart(frames, zmq.NOBLOCK, copy=len(frames[-1]) < SHARED_BYTES)
        except zmq.ZMQError as error:
            # Gone (EHOSTUNREACH) or not reading (EAGAIN): a peer that lives asks again for whatever it needs.
            if error.errno not in (zmq.EHOSTUNREACH, zmq.EAGAIN):
                raise

    def _packed(self, message: AnyMessage) -> bytes:
        """The header of a message; a status, which goes to all who ask for it, is packed once."""
        if not isinstance(message, Status):
            return pack(message)
        if self._status is None or self._status[0] is not message:
            self._status = message, pack(message)
        return self._status[1]

    def _write_log(self, effect: Log) -> None:
        now = time.monotonic()
        repeated = self._limited.admit(effect.key, now) if effect.key else 0
        if repeated is None:
            return
        held = 0 if effect.own else self._throttle.admit(now)
        if held is not None:
            getattr(_log, effect.level)("%s%s%s", cut(effect.text), again(repeated), held_back(held))

    def _write_metrics(self, row: Mapping[str, Any]) -> None:
        self._writer.row(time.time(), row)
        self._notifier.status(
            f"{row['frames']} frames, {row['episodes']} episodes, return {row['mean_return']}, {row['actors']} actors"
        )

    def _record(self, effect: Record) -> None:
        try:
            self._gradient_log.append(effect.entry, effect.body or b"")
        except OSError as error:
            self._recording_failed(error)

    def _recording_failed(self, error: OSError) -> None:
        """Says so in the log and in the status; the run goes on."""
        text = f"nothing more is recorded (record.gradients) until the learner is started again: {error}"
        self._core.run.stats.warn(text)
        self._write_log(Log("error", text, own=True))

    def _save(self, effect: SaveCheckpoint) -> None:
        try:
            if (sync := self._gradient_log.saved(effect.version)) is not None:
                self._writer.sync(sync)
        except OSError as error:
            self._recording_failed(error)
        self._writer.save(effect)

    def _heed_writer(self, now: float) -> None:
        for saved in self._writer.saved():
            self._do(self._core.saved(now, saved.version, saved.error))
        for trouble in self._writer.troubles():
            self._core.run.stats.warn(trouble)

    def _end(self, finish: Finish) -> int:
        """Waits for the last checkpoint; raises UnavailableError if it could not be written."""
        _log.log(logging.ERROR if finish.ending == "failed" else logging.INFO, "%s: %s", finish.ending, finish.reason)
        self._notifier.stopping(finish.reason)
        in_time = self._writer.wait(LAST_SAVE_SECONDS, lambda: self._notifier.watchdog(time.monotonic()))
        self._heed_writer(time.monotonic())
        run = self._core.run
        status = run.status(time.monotonic())
        self._writer.conclude(
            msgspec.structs.replace(finish.status, checkpoint=status.checkpoint, warnings=status.warnings)
        )
        in_time = in_time and self._writer.wait(CLOSE_SECONDS)
        safe = run.saves.safe
        if finish.ending == "failed":
            _log.info(safe)
            return UnavailableError.exit_code
        if error := run.saves.error or ("" if in_time else f"{run.spec.run_dir}: the disk has not taken it yet"):
            raise UnavailableError(f"the last checkpoint could not be written: {error}; {safe}")
        return self._signals.exit_code if finish.ending == "stopped" else EXIT_DONE
