"""A run under random faults: daemons killed and stopped, links cut, slowed and reset, strangers on the ports.

    python -m benchmarks faults [--faults 200] [--seconds 1200] [--seed 0] [--only "kill learner,kill launcher"]

Six actors (four from two launchers, two started by hand) train CartPole-v1 at a pace of 20 ms a step. After the last
fault everything is mended, and the run must be solved (a mean return of 475). `a3cd replay` then proves from the record
of applied gradients that none counted twice and that the final weights follow from them, bit for bit.

The table shows for each kind of fault how often it came, and the median and longest time until the learner's next step.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks import tables
from benchmarks.crew import Crew
from benchmarks.fault_injection import WEIGHTS, Fault, FaultInjector
from benchmarks.runs import RunFailedError
from common.run.status import RunStatus

GOAL = 475.0
ACTORS = 6
SOLVED_SECONDS = 300.0
"""Longest wait for the goal after the last fault."""
MOST_PAUSE_SECONDS = 120.0
"""Longest time from any fault to the learner's next step."""
PACE_SECONDS = 0.02
"""Duration of a step, so that six actors do not fill two cores, and the run lasts long enough."""
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


@dataclass
class Outcome:
    faults: list[str]
    pauses: dict[str, list[float]]
    """Seconds from a fault to the learner's next step, by kind of fault."""
    mean_return: float | None
    frames: int
    unexpected: list[str]
    replay: dict[str, object]


def run(
    faults: int,
    seconds: float,
    seed: int,
    goal: float | None,
    say: Callable[[str], None],
    weights: Mapping[Fault, int] = WEIGHTS,
) -> Outcome:
    """Train under random faults; `goal`: mean return to reach after the last fault, if any; `weights`: frequencies.

    Raises RunFailedError if the run does not recover or reach the goal, or its replay differs.
    """
    with Crew(CONFIG.format(seed=seed, pace=PACE_SECONDS), launchers=(2, 2), by_hand=2) as crew:
        chance = random.Random(seed)
        injector = FaultInjector(crew, chance)
        _wait(injector, 120.0, lambda status: status.actors_now == ACTORS and status.version > 0, "six actors at work")
        names: list[str] = []
        pauses = Pauses()
        due = time.monotonic()
        while len(names) < faults or pauses.open or injector.to_mend:
            now = time.monotonic()
            if len(names) < faults and now >= due:
                fault = chance.choices(list(weights), list(weights.values()))[0]
                names.append(_name(fault))
                due = now + chance.expovariate(faults / seconds)
                say(f"fault {len(names)}: {names[-1]}")
                before = crew.status()
                fault(injector)
                pauses.begin(names[-1], before)
            injector.mend_due(now)
            crew.look()
            pauses.end(crew.status(0.3))
            if (late := pauses.longer_than(MOST_PAUSE_SECONDS)) is not None:
                said = "\n".join(crew.unexpected)
                raise RunFailedError(f"no step for {MOST_PAUSE_SECONDS:g} s after: {late}\n{said}")
            time.sleep(0.02)
        for link in crew.links.values():
            link.mend()
        end = _wait(injector, SOLVED_SECONDS, lambda status: _is_over(status, goal), "six actors, and solved")
        crew.learner.signal(signal.SIGTERM)
        crew.learner.process.wait(60)
        return Outcome(names, pauses.seconds, end.mean_return, end.frames, crew.unexpected, _replay(crew))


def _name(fault: Fault) -> str:
    return fault.__name__.replace("_", " ")


class Pauses:
    """Measures the time from each fault to the learner's next step."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = defaultdict(list)
        """Times of each kind of fault, by name."""
        self.open: list[tuple[str, float, tuple[int, int]]] = []
        """Faults after which no step was seen yet: name, time, and the epoch and version before it."""
        self._began = (0, 0)
        """The newest epoch, and the version in which it was first seen."""

    def begin(self, name: str, status: RunStatus | None) -> None:
        """Note a fault; `status`: the learner's before it."""
        self.open.append((name, time.monotonic(), (status.epoch, status.version) if status else (0, 0)))

    def end(self, status: RunStatus | None) -> None:
        if status is None:
            return
        now, reached = time.monotonic(), (status.epoch, status.version)
        if status.epoch > self._began[0]:
            self._began = reached
        # A restarted learner begins at its checkpoint, so only a version beyond that one shows a step.
        over = [one for one in self.open if reached > max(one[2], self._began)]
        for name, since, _ in over:
            self.seconds[name].append(now - since)
        self.open = [one for one in self.open if one not in over]

    def longer_than(self, seconds: float) -> str | None:
        """Return the name of the oldest open fault if it is older than `seconds`."""
        return self.open[0][0] if self.open and time.monotonic() - self.open[0][1] > seconds else None


def _is_over(status: RunStatus, goal: float | None) -> bool:
    good = goal is None or (status.mean_return is not None and status.mean_return >= goal)
    return good and status.actors_now == ACTORS


def _wait(injector: FaultInjector, seconds: float, good: Callable[[RunStatus], bool], what: str) -> RunStatus:
    crew, until = injector.crew, time.monotonic() + seconds
    while True:
        injector.mend_due(time.monotonic())
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


def show(outcome: Outcome) -> None:
    rows: list[Sequence[tables.Cell]] = [
        (name, len(seconds), round(statistics.median(seconds), 1), round(max(seconds), 1))
        for name, seconds in sorted(outcome.pauses.items())
    ]
    tables.show("Seconds from a fault to the learner's next step", ("fault", "times", "median", "most"), rows)
    print(f"\n{len(outcome.faults)} faults; mean return {outcome.mean_return} after {outcome.frames:,} frames")
    print("replay: " + json.dumps(outcome.replay))
    for text in outcome.unexpected:
        print(f"unexpected: {text}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=1200.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="kinds of faults, with commas between them; the run need not be solved then")
    given = parser.parse_args()
    weights = {
        fault: often for fault, often in WEIGHTS.items() if not given.only or _name(fault) in given.only.split(",")
    }
    tables.machine()
    begun = time.monotonic()
    outcome = run(
        given.faults,
        given.seconds,
        given.seed,
        None if given.only else GOAL,
        lambda text: print(f"{time.monotonic() - begun:.0f} s, {text}", file=sys.stderr, flush=True),
        weights,
    )
    show(outcome)
    if outcome.unexpected:
        sys.exit(1)


if __name__ == "__main__":
    main()
