"""Faults for a crew, and how often each kind is drawn. A fault starts something, and schedules what mends it."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import psutil
import zmq

from benchmarks.crew import Crew, Member
from benchmarks.runs import Command

Mend = Callable[[], object]


@dataclass
class FaultInjector:
    """Injects faults, each of which is a method; call `mend_due` often."""

    crew: Crew
    chance: random.Random
    to_mend: list[tuple[float, Mend]] = field(default_factory=list)

    def later(self, seconds: float, action: Mend) -> None:
        self.to_mend.append((time.monotonic() + seconds, action))

    def mend_due(self, now: float) -> None:
        due = [entry for entry in self.to_mend if entry[0] <= now]
        self.to_mend = [entry for entry in self.to_mend if entry[0] > now]
        for _, action in due:
            action()

    def kill_learner(self) -> None:
        self.crew.learner.signal(signal.SIGKILL)

    def kill_learner_that_saves(self) -> None:
        """Send SIGKILL while a checkpoint is being written."""
        until = time.monotonic() + 12.0
        while time.monotonic() < until:
            if any(self.crew.folder.checkpoints.glob(".*.partial")):
                break
            time.sleep(0.0005)
        self.crew.learner.signal(signal.SIGKILL)

    def kill_launcher(self) -> None:
        self._any("launcher").signal(signal.SIGKILL)

    def kill_actor(self) -> None:
        if (actor := self._actor()) is None:
            return
        for name, member in self.crew.members.items():
            if name.startswith("by-hand") and member.process.pid == actor.pid:
                member.signal(signal.SIGKILL)
                return
        _signal(actor.pid, signal.SIGKILL)

    def kill_everybody(self) -> None:
        for member in self.crew.members.values():
            member.signal(signal.SIGKILL)

    def end_learner(self) -> None:
        self.crew.learner.signal(signal.SIGTERM)

    def end_launcher(self) -> None:
        self._any("launcher").signal(signal.SIGTERM)

    def stop_learner(self) -> None:
        """Stop the learner with SIGSTOP for up to 30 s."""
        self._suspend(self.crew.learner.process.pid, self.chance.choice((2, 5, 30)))

    def stop_launcher(self) -> None:
        self._suspend(self._any("launcher").process.pid, self.chance.choice((2, 10, 20)))

    def stop_actor(self) -> None:
        if (actor := self._actor()) is not None:
            self._suspend(actor.pid, self.chance.choice((2, 10, 20)))

    def slow_actor(self) -> None:
        """Make an actor a hundred times slower than the others for some seconds."""
        if (actor := self._actor()) is None:
            return
        pid = actor.pid
        for tenth in range(60):
            self.later(tenth * 0.1, lambda: _signal(pid, signal.SIGSTOP))
            self.later(tenth * 0.1 + 0.099, lambda: _signal(pid, signal.SIGCONT))
        self.later(6.1, lambda: _signal(pid, signal.SIGCONT))

    def cut_link(self) -> None:
        link = self.chance.choice(list(self.crew.links.values()))
        link.cut()
        self.later(self.chance.choice((1, 5, 20)), link.mend)

    def slow_link(self) -> None:
        link = self.chance.choice(list(self.crew.links.values()))
        link.slow(20_000)
        self.later(5, link.mend)

    def reset_links(self) -> None:
        for link in self.crew.links.values():
            link.reset()

    def move_learner(self) -> None:
        """Restart the learner at another address; its peers still use the same ones."""
        self.crew.move()

    def second_learner(self) -> None:
        """Start a second learner with the same folder on another port; it must be refused."""
        if self.crew.status() is None:
            return  # without a learner it would be the first, and not be refused
        words = [*self.crew.learner_words()]
        words[words.index("--bind") + 1] = "tcp://127.0.0.1:0"
        second = Command(*words)
        self.later(6, lambda: second.__exit__())

    def strangers(self) -> None:
        """Send bytes that are no message and leave connections idle on both ports; flood the first port, then reset."""
        for port in (self.crew.port, self.crew.port + 1):
            for number in range(20):
                stranger = socket.socket()
                stranger.settimeout(1.0)
                try:
                    stranger.connect((self.crew.home, port))
                    stranger.sendall(self.chance.randbytes(1 + 50 * number))
                except OSError:
                    stranger.close()
                    continue
                self.later(self.chance.uniform(0, 5), stranger.close)
        self._flood()

    def _flood(self) -> None:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        peer = context.socket(zmq.DEALER)
        peer.setsockopt(zmq.LINGER, 0)
        peer.setsockopt(zmq.SNDHWM, 0)
        peer.connect(f"tcp://{self.crew.home}:{self.crew.port}")
        for _ in range(3000):
            peer.send_multipart([self.chance.randbytes(64), b""], zmq.NOBLOCK)

        def end() -> None:
            peer.close()
            context.term()

        self.later(0.5, end)

    def _any(self, kind: str) -> Member:
        return self.chance.choice([member for name, member in self.crew.members.items() if name.startswith(kind)])

    def _actor(self) -> psutil.Process | None:
        actors = self.crew.actors()
        return self.chance.choice(actors) if actors else None

    def _suspend(self, pid: int, seconds: float) -> None:
        _signal(pid, signal.SIGSTOP)
        self.later(seconds, lambda: _signal(pid, signal.SIGCONT))


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


Fault = Callable[[FaultInjector], None]
WEIGHTS: dict[Fault, int] = {
    FaultInjector.kill_learner: 4,
    FaultInjector.kill_learner_that_saves: 2,
    FaultInjector.kill_launcher: 3,
    FaultInjector.kill_actor: 5,
    FaultInjector.kill_everybody: 1,
    FaultInjector.end_learner: 2,
    FaultInjector.end_launcher: 2,
    FaultInjector.stop_learner: 2,
    FaultInjector.stop_launcher: 2,
    FaultInjector.stop_actor: 3,
    FaultInjector.slow_actor: 3,
    FaultInjector.cut_link: 4,
    FaultInjector.slow_link: 3,
    FaultInjector.reset_links: 3,
    FaultInjector.move_learner: 1,
    FaultInjector.second_learner: 1,
    FaultInjector.strangers: 4,
}
"""How often each kind of fault is drawn."""
