"""The learner daemon: one thread that owns both sockets, the clock and the files, around the pure core."""

from __future__ import annotations

import gc
import importlib
import logging
import math
import socket
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import zmq

from common.errors import (
    EXIT_DONE,
    EXIT_SIGTERM,
    A3cdError,
    DamagedCheckpointError,
    TorchMissingError,
    UnavailableError,
    WireError,
)
from common.host.addresses import Address
from common.host.service.logs import LineLimit, cut
from common.host.service.notify import Notifier
from common.host.service.signals import Signals
from common.settings.sections import Settings
from common.wire import sockets
from common.wire.frames import split
from learner.authentication import LearnerKeys
from learner.effects import (
    Disconnect,
    Effect,
    Finish,
    Log,
    Publish,
    RateCheckpoint,
    ReadBest,
    Record,
    SaveCheckpoint,
    Send,
    ShowStatus,
    WriteMetrics,
)
from learner.ports import Ports, unread_messages
from learner.record import run_lock
from learner.record.gradient_log import GradientLog
from learner.record.hyperparameters import hyperparameters
from learner.record.run_lock import LockedRun
from learner.record.run_writer import RunWriter

if TYPE_CHECKING:
    from learner.exporter import Exporter

_log = logging.getLogger("learner")
LINES_PER_SECOND = 3.0
"""Log lines that peers can cause, all together, after the first LINES_AT_ONCE."""
LINES_AT_ONCE = 100
"""Enough that a joining fleet is logged host by host."""
REPEAT_SECONDS = 60.0
"""A repeated line is written once in this time, with the number of repetitions."""
DISMISS_SECONDS = 3.0
"""Longest time that actors and launchers get to say goodbye at the end of a run."""
REMIND_SECONDS = 0.5
"""Seconds between two stops to peers that have not said goodbye."""
PROGRESS_SECONDS = 1.0
"""Seconds between two looks at which connections make progress."""
LAST_SAVE_SECONDS = 60.0
"""Longest wait for the last checkpoint to reach the disk; less than systemd waits for the learner to end."""
CLOSE_SECONDS = 20.0
"""Longest wait for the summary and the learning curve."""


def run(
    settings: Settings | None,
    *,
    bind: Address,
    keys: LearnerKeys | None,
    run_dir: Path,
    resume: bool,
    listeners: tuple[socket.socket, socket.socket] | None = None,
    curve: bool = True,
    metrics: Address | None = None,
) -> int:
    """Train until a limit is reached or a signal arrives; return the exit code.

    Args:
        settings: the run settings; None: those of the run that is resumed.
        bind: where to listen; weights are published on the next port.
        keys: the keys to listen with; None: everybody may connect.
        resume: go on with the run in `run_dir` instead of starting one.
        listeners: sockets that already listen at `bind` and the next port.
        curve: draw the learning curve at the end.
        metrics: where to listen for Prometheus.

    Raises A3cdError if the run cannot begin.
    """
    with Signals() as signals, ExitStack() as stack:
        listeners = listeners or sockets.reserve_pair(bind)
        for listener in listeners:
            stack.callback(listener.close)
        exporter = None
        if metrics is not None:
            from learner.exporter import Exporter  # imported here so that runs without --metrics do not load it

            exporter = stack.enter_context(Exporter(metrics))
        locked = run_lock.resume(run_dir, settings) if resume else run_lock.create(run_dir, settings or Settings())
        stack.callback(locked.close)
        try:
            daemon = _Daemon(locked, listeners, keys, signals, exporter, curve=curve)
        except A3cdError:
            if not resume:
                locked.discard()  # the run never began: the corrected command must find the folder free
            raise
        return daemon.run()


def load() -> None:
    """Import what a learner computes with, above all torch, which takes seconds; `run` does it if nobody has before."""
    if "learner.build" in sys.modules:
        return
    # The imports create many objects and hardly any garbage. Collecting would take a tenth of their time, and would
    # look at these objects again and again later.
    gc.disable()
    try:
        importlib.import_module("learner.build")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise TorchMissingError("a learner") from error
    finally:
        gc.freeze()
        gc.enable()


def failure_of(error: RuntimeError) -> str:
    """Return what `devices.failure` returns. Imported only here, since it needs torch and failures are rare."""
    from learner.parameters.devices import failure

    return failure(error)


class _Daemon:
    def __init__(
        self,
        run: LockedRun,
        listeners: tuple[socket.socket, socket.socket],
        keys: LearnerKeys | None,
        signals: Signals,
        exporter: Exporter | None,
        *,
        curve: bool,
    ) -> None:
        damaged: dict[str, DamagedCheckpointError] = {}
        checkpoint = run.folder.newest_read(damaged)
        load()  # only after ports, folder and checkpoint are secured, since it takes seconds
        from learner.build import build

        self._core = build(run, checkpoint, listeners[1].getsockname()[1], time.monotonic())
        for text in self._core.run.stats.warnings:
            _log.warning(text)
        for name, error in damaged.items():
            self._core.run.stats.warn(f"checkpoint {name} is damaged and was passed over: {error}")
        spec, settings = self._core.run.spec, self._core.run.spec.settings
        self._signals = signals
        self._exporter = exporter
        self._draws_curve = curve
        self._lines = LineLimit(REPEAT_SECONDS, LINES_PER_SECOND, LINES_AT_ONCE)
        self._notifier = Notifier()
        self._header_bytes = spec.header_bytes
        self._drain_seconds = settings.exchange.drain_ms / 1e3
        self._finish: Finish | None = None
        self._listening = sockets.address_of(listeners[0])
        self._ports = Ports(
            listeners,
            keys,
            max_bytes=self._core.max_bytes,
            unread_messages=unread_messages(settings.exchange),
            broadcast_bytes=4 * spec.parameters * settings.scaling.most,
            repeat_seconds=REPEAT_SECONDS,
        )
        try:
            run.begin(settings)  # only now: what a start may lack has been looked for
            self._writer = RunWriter(run.folder, settings.checkpoint, damaged, hyperparameters(settings), spec.layout)
        except A3cdError:
            self._ports.close()
            raise
        self._gradient_log = GradientLog(run.folder.gradients, keep_mib=settings.record.keep_mib)
        self._progress_due = 0.0
        self._poller = zmq.Poller()
        for one in (signals, *self._ports.pollable):
            self._poller.register(one, zmq.POLLIN)

    def run(self) -> int:
        spec, counters, listening = self._core.run.spec, self._core.run.stats.counters, self._listening
        with_keys = " with keys" if self._ports.authenticator else ""
        _log.info(
            f"run {spec.run} epoch {spec.epoch} listens on {listening}{with_keys}: "
            f"{spec.settings.environment.id}, {spec.settings.algorithm.kind}, {spec.settings.network.kind} with "
            f"{spec.parameters} parameters on {spec.device}, folder {spec.run_dir}"
        )
        if self._ports.authenticator is None and not listening.loopback:
            _log.warning(f"without keys: whoever reaches {listening} can take part in this run, and spoil it")
        if counters.frames:
            _log.info(f"resumed at version {counters.version}, {counters.frames} frames, {counters.episodes} episodes")
        self._do(self._core.begin())
        if self._exporter is not None:
            self._exporter.start()
            _log.info(f"metrics for Prometheus at {self._exporter.url}")
        self._notifier.ready(f"training {spec.settings.environment.id} on {listening}")
        try:
            finish = self._loop()
            if finish.ending != "stopped":
                self._dismiss()
            return self._end(finish)
        except RuntimeError as error:
            if why := failure_of(error):
                raise self._given_up(why) from error
            raise
        finally:
            self._writer.close(CLOSE_SECONDS)
            self._gradient_log.close()
            self._ports.close()

    def _loop(self) -> Finish:
        heard_all, begun = True, -math.inf
        while self._finish is None:
            if heard_all:
                rest = begun + self._core.gather_seconds - time.monotonic()
                if rest > 0.0:
                    time.sleep(rest)
                wait = min(self._core.deadline, self._notifier.deadline) - time.monotonic()
                self._poller.poll(max(0, math.ceil(wait * 1e3)))
            begun = time.monotonic()
            if self._signals.requested is not None:
                self._do(self._core.stop(begun))
                continue
            self._admit(begun)
            heard_all = self._drain(begun)
            self._heed_writer(begun)
            self._do(self._core.answer(time.monotonic()))
            now = time.monotonic()
            if now >= self._progress_due:
                self._progress_due = now + PROGRESS_SECONDS
                self._core.progress(self._ports.progress())
            self._do(self._core.flush(now, heard_all=heard_all))
            self._do(self._core.tick(now, heard_all=heard_all))
            self._notifier.watchdog(now)
            now = time.monotonic()
            self._core.run.stats.turned(now, now - begun, time.time())
        return self._finish

    def _given_up(self, why: str) -> UnavailableError:
        """Return the error to end with after a GPU failed; first save what the GPU still yields, to resume from."""
        run = self._core.run
        try:
            if self._finish is None:
                self._do(self._core.stop(time.monotonic()))
                self._writer.wait(LAST_SAVE_SECONDS, lambda: self._notifier.watchdog(time.monotonic()))
                self._heed_writer(time.monotonic())
        except RuntimeError as error:  # after most failures nothing can be read from the GPU any more
            if not failure_of(error):
                raise
        return UnavailableError(f"{run.spec.device} failed: {why}; {run.saves.safe}")

    def _admit(self, now: float) -> None:
        """Let peers in, and cut off those whose key is no longer allowed."""
        authenticator = self._ports.authenticator
        if authenticator is None:
            return
        revoked = self._ports.admit(now)
        self._core.run.peers.key_roles = authenticator.roles
        if authenticator.problem:
            self._core.run.stats.warn(authenticator.problem)
        if revoked:
            self._do(self._core.revoke(now, revoked))

    def _dismiss(self) -> None:
        """Repeat to the peers that the run is over until all have said goodbye, for a bounded time.

        A peer that missed it would wait for a learner that does not come back.
        """
        until = time.monotonic() + DISMISS_SECONDS
        remind = time.monotonic() + REMIND_SECONDS
        while self._core.present and time.monotonic() < until and self._signals.requested is None:
            self._poller.poll(int(1e3 * REMIND_SECONDS / 4))
            self._admit(time.monotonic())
            self._drain(time.monotonic())
            now = time.monotonic()
            self._notifier.watchdog(now)
            if now >= remind:
                remind = now + REMIND_SECONDS
                self._do(self._core.remind())

    def _drain(self, begun: float) -> bool:
        """Read the waiting messages, for a bounded time since more keep arriving; return whether none is left."""
        for routing_id, frames, key_name, address in self._ports.receive(begun + self._drain_seconds):
            now = time.monotonic()
            try:
                message, body = split(frames, self._header_bytes, by_learner=True)
            except WireError as error:
                self._do(self._core.malformed(routing_id, error))
            else:
                self._do(self._core.handle(now, routing_id, message, body, key_name, address))
        return self._ports.all_read

    def _do(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send():
                    self._ports.send(effect)
                case Disconnect():
                    self._ports.disconnect(effect)
                case Publish():
                    self._ports.publish(effect)
                case WriteMetrics():
                    self._writer.row(time.time(), effect.row)
                    self._show_status()
                case ShowStatus():
                    self._show_status()
                case Record():
                    self._record(effect)
                case SaveCheckpoint():
                    self._save(effect)
                case RateCheckpoint():
                    self._writer.rate(effect)
                case ReadBest():
                    self._writer.read_best()
                case Log():
                    self._write_log(effect)
                case Finish():
                    self._finish = effect

    def _write_log(self, effect: Log) -> None:
        suffix = self._lines.admit(time.monotonic(), effect.key, throttled=not effect.own)
        if suffix is not None:
            getattr(_log, effect.level)("%s%s", cut(effect.text), suffix)

    def _show_status(self) -> None:
        run = self._core.run
        stats, counters = run.stats, run.stats.counters
        stats.host = self._writer.host
        if self._exporter is not None:
            self._exporter.show(run.status(time.monotonic()))
        self._notifier.status(
            f"{stats.state}: {counters.frames} frames, {counters.episodes} episodes, "
            f"return {stats.window.mean_return}, {run.peers.actors} actors"
        )

    def _record(self, effect: Record) -> None:
        try:
            self._gradient_log.append(effect.entry, effect.body or b"")
        except OSError as error:
            self._recording_failed(error)

    def _recording_failed(self, error: OSError) -> None:
        """Report the failure in the log and in the status; the run goes on."""
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
            self._do(self._core.saved(now, saved.version, saved.error, saved.path))
        for read in self._writer.best_read():
            self._do(self._core.best_read(now, read.checkpoint, read.error))
        for trouble in self._writer.troubles():
            self._core.run.stats.warn(trouble)

    def _end(self, finish: Finish) -> int:
        """Wait for the last checkpoint; return the exit code. Raises UnavailableError if it could not be written."""
        _log.log(logging.ERROR if finish.ending == "failed" else logging.INFO, "%s: %s", finish.ending, finish.reason)
        self._notifier.stopping(finish.reason)
        in_time = self._writer.wait(LAST_SAVE_SECONDS, lambda: self._notifier.watchdog(time.monotonic()))
        self._heed_writer(time.monotonic())
        run, status = self._core.run, self._core.run.status(time.monotonic())
        summary = msgspec.structs.replace(finish.status, checkpoint=status.checkpoint, warnings=status.warnings)
        self._writer.conclude(summary, curve=self._draws_curve)
        if in_time and not self._writer.wait(CLOSE_SECONDS):
            _log.warning("summary.json or curve.png is not done after %g s", CLOSE_SECONDS)
        safe = run.saves.safe
        if finish.ending == "failed":
            _log.info(safe)
            return UnavailableError.exit_code
        if error := run.saves.error or ("" if in_time else f"{run.spec.run_dir}: the disk has not taken it yet"):
            raise UnavailableError(f"the last checkpoint could not be written: {error}; {safe}")
        return (self._signals.exit_code or EXIT_SIGTERM) if finish.ending == "stopped" else EXIT_DONE
