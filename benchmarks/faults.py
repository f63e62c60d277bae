"""A run under random faults: daemons killed and stopped, links cut, slowed and reset, strangers on the ports.

    python benchmarks/faults.py [--faults 200] [--seconds 1200] [--seed 0]

Six actors, four of two launchers and two started by hand, train CartPole-v1 at a pace of 20 ms a step. After the last
fault everything is mended, the run is to be solved (a mean return of 475), and `a3cd replay` proves from the record of
what was applied that no gradient counted twice and that the final weights follow from it, bit for bit.

For each kind of fault: how often, and the longest time in which the learner took no step, from the fault on.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import zmq

from benchmarks import tables
from benchmarks.crew import Crew
from benchmarks.runs import Command, RunFailedError
from common.run.status import RunStatus

GOAL = 475.0
ACTORS = 6
SOLVED_SECONDS = 300.0
"""After the last fault: longest wait for the goal."""
PACE_SECONDS = 0.02
"""Of a step, so that six actors leave room on two cores, and the run lasts."""
CONFIG = """
seed = {seed}
[environment]
id = "CartPole-v1"
num_envs = 8
step_seconds = {pace}
reward_scale = 0.1
[network]
activation = "relu"
[algorithm]
rollout_length = 16
[optimizer]
learning_rate = 2e-3
[scaling]
minimum = 4
maximum = 4
[checkpoint]
every_seconds = 10.0
[exchange]
expiry_seconds = 15.0
[record]
gradients = true
"""

Undo = Callable[[], object]


@dataclass
class Script:
    """What happens when: faults, and what mends them."""

    crew: Crew
    chance: random.Random
    undo: list[tuple[float, Undo]] = field(default_factory=list)

    def later(self, seconds: float, action: Undo) -> None:
        self.undo.append((time.monotonic() + seconds, action))

    def mend_due(self, now: float) -> None:
        due = [entry for entry in self.undo if entry[0] <= now]
        self.undo = [entry for entry in self.undo if entry[0] > now]
        for _, action in due:
            action()

    # -- the faults: each begins something, and books its end ----------------------------------------------------------

    def kill_learner(self) -> None:
        self.crew.learner.signal(signal.SIGKILL)

    def kill_learner_that_saves(self) -> None:
        """With SIGKILL, while a checkpoint is written."""
        until = time.monotonic() + 12.0
        while time.monotonic() < until:
            if any(self.crew.folder.checkpoints.glob(".*.partial")):
                break
            time.sleep(0.0005)
        self.crew.learner.signal(signal.SIGKILL)

    def kill_launcher(self) -> None:
        self._any("launcher").signal(signal.SIGKILL)

    def kill_actor(self) -> None:
        self._actor(signal.SIGKILL)

    def kill_everybody(self) -> None:
        for member in self.crew.members.values():
            member.signal(signal.SIGKILL)

    def end_learner(self) -> None:
        self.crew.learner.signal(signal.SIGTERM)

    def end_launcher(self) -> None:
        self._any("launcher").signal(signal.SIGTERM)

    def stop_learner(self) -> None:
        """SIGSTOP, for up to 30 s."""
        self._suspend(self.crew.learner.process.pid, self.chance.choice((2, 5, 30)))

    def stop_launcher(self) -> None:
        self._suspend(self._any("launcher").process.pid, self.chance.choice((2, 10, 20)))

    def stop_actor(self) -> None:
        actors = self.crew.actors()
        if actors:
            self._suspend(self.chance.choice(actors).pid, self.chance.choice((2, 10, 20)))

    def slow_actor(self) -> None:
        """A hundred times slower than the others, for some seconds."""
        actors = self.crew.actors()
        if not actors:
            return
        pid = self.chance.choice(actors).pid
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
        """Restarted elsewhere, behind the same names."""
        self.crew.move()

    def second_learner(self) -> None:
        """On the same folder, on another port; it is to be refused."""
        if self.crew.status() is None:
            return  # it would be the first
        words = [*self.crew.learner_words()]
        words[words.index("--bind") + 1] = "tcp://127.0.0.1:0"
        second = Command(*words)
        self.later(6, lambda: second.__exit__())

    def strangers(self) -> None:
        """Bytes that are no message, idle connections, and a flood that ends in a reset, on both ports."""
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

    def _any(self, kind: str):
        return self.chance.choice([member for name, member in self.crew.members.items() if name.startswith(kind)])

    def _actor(self, number: int) -> None:
        actors = self.crew.actors()
        if not actors:
            return
        pid = self.chance.choice(actors).pid
        for name, member in self.crew.members.items():
            if name.startswith("by-hand") and member.process.pid == pid:
                member.signal(number)
                return
        _signal(pid, number)

    def _suspend(self, pid: int, seconds: float) -> None:
        _signal(pid, signal.SIGSTOP)
        self.later(seconds, lambda: _signal(pid, signal.SIGCONT))


WEIGHTS: dict[Callable[[Script], None], int] = {
    Script.kill_learner: 4,
    Script.kill_learner_that_saves: 2,
    Script.kill_launcher: 3,
    Script.kill_actor: 5,
    Script.kill_everybody: 1,
    Script.end_learner: 2,
    Script.end_launcher: 2,
    Script.stop_learner: 2,
    Script.stop_launcher: 2,
    Script.stop_actor: 3,
    Script.slow_actor: 3,
    Script.cut_link: 4,
    Script.slow_link: 3,
    Script.reset_links: 3,
    Script.move_learner: 1,
    Script.second_learner: 1,
    Script.strangers: 4,
}
"""How often each kind of fault is drawn."""


@dataclass
class Outcome:
    faults: list[str]
    pauses: dict[str, list[float]]
    """Seconds from a fault until the learner next took a step."""
    mean_return: float | None
    frames: int
    unexpected: list[str]
    replay: dict[str, object]


def run(faults: int, seconds: float, seed: int, goal: float | None, say: Callable[[str], None]) -> Outcome:
    """`goal`: a mean return that is to be reached after the last fault, if any.

    Raises RunFailedError where the run does not come back or reach the goal, or its replay differs.
    """
    with Crew(CONFIG.format(seed=seed, pace=PACE_SECONDS), launchers=(2, 2), by_hand=2) as crew:
        chance = random.Random(seed)
        script = Script(crew, chance)
        _wait(crew, script, 60.0, lambda status: status.actors_now == ACTORS, "six actors")
        names: list[str] = []
        pauses: dict[str, list[float]] = defaultdict(list)
        waiting: list[tuple[str, float, tuple[int, int]]] = []
        due = time.monotonic()
        while len(names) < faults or waiting or script.undo:
            now = time.monotonic()
            if len(names) < faults and now >= due:
                fault = chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
                name = fault.__name__.replace("_", " ")
                names.append(name)
                due = now + chance.expovariate(faults / seconds)
                say(f"fault {len(names)}: {name}")
                before = crew.status()
                fault(script)
                waiting.append((name, time.monotonic(), (before.epoch, before.version) if before else (0, 0)))
            script.mend_due(now)
            crew.look()
            status = crew.status(0.3)
            if status is not None:
                done = [one for one in waiting if (status.epoch, status.version) > one[2]]
                waiting = [one for one in waiting if one not in done]
                for name, since, _ in done:
                    pauses[name].append(time.monotonic() - since)
            if waiting and now - waiting[0][1] > 120.0:
                raise RunFailedError(f"no step for 120 s after: {waiting[0][0]}\n" + "\n".join(crew.unexpected))
            time.sleep(0.02)
        for link in crew.links.values():
            link.mend()
        end = _wait(crew, script, SOLVED_SECONDS, lambda status: _is_over(status, goal), "six actors, and solved")
        crew.learner.signal(signal.SIGTERM)
        crew.learner.command.process.wait(60)
        return Outcome(names, pauses, end.mean_return, end.frames, crew.unexpected, _replay(crew))


def _is_over(status: RunStatus, goal: float | None) -> bool:
    good = goal is None or (status.mean_return is not None and status.mean_return >= goal)
    return good and status.actors_now == ACTORS


def _wait(crew: Crew, script: Script, seconds: float, good: Callable[..., bool], what: str):
    until = time.monotonic() + seconds
    while True:
        script.mend_due(time.monotonic())
        crew.look()
        status = crew.status()
        if status is not None and good(status):
            return status
        if time.monotonic() > until:
            shown = "no answer" if status is None else f"mean return {status.mean_return}, {status.actors_now} actors"
            raise RunFailedError(f"not within {seconds:g} s: {what}; {shown}\n" + "\n".join(crew.unexpected))
        time.sleep(0.2)


def _replay(crew: Crew) -> dict[str, object]:
    words = [sys.executable, "-P", "-m", "deploy.cli.command", "replay", str(crew.folder.path), "--json"]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise RunFailedError(f"the replay ended with {ended.returncode}: {ended.stdout[-2000:]} {ended.stderr[-2000:]}")
    result: dict[str, object] = json.loads(ended.stdout)
    return result


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def show(outcome: Outcome) -> None:
    rows: list[Sequence[object]] = [
        (name, len(seconds), round(statistics.median(seconds), 1), round(max(seconds), 1))
        for name, seconds in sorted(outcome.pauses.items())
    ]
    title = f"{len(outcome.faults)} faults; seconds from the fault to the learner's next step"
    tables.show(title, ("fault", "times", "median", "most"), rows)
    print(f"\nmean return {outcome.mean_return} after {outcome.frames:,} frames")
    print("replay: " + json.dumps(outcome.replay))
    for text in outcome.unexpected:
        print(f"unexpected: {text}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=1200.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    tables.machine()
    begun = time.monotonic()
    outcome = run(
        given.faults,
        given.seconds,
        given.seed,
        GOAL,
        lambda text: print(f"{time.monotonic() - begun:.0f} s, {text}", file=sys.stderr, flush=True),
    )
    show(outcome)
    if outcome.unexpected:
        sys.exit(1)


if __name__ == "__main__":
    main()
