"""A run under random faults: daemons killed and stopped, links cut, slowed and reset, strangers on the ports.

    python -m benchmarks faults [--faults 200] [--seconds 1200] [--seed 0] [--only "kill learner,kill launcher"]

Six actors, four of two launchers and two started by hand, train CartPole-v1 at a pace of 20 ms a step. After the last
fault everything is mended, the run is to be solved (a mean return of 475), and `a3cd replay` proves from the record of
what was applied that no gradient counted twice and that the final weights follow from it, bit for bit.

For each kind of fault: how often, and the longest time in which the learner took no step, from the fault on.
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
"""After the last fault: longest wait for the goal."""
MOST_PAUSE_SECONDS = 120.0
"""After any fault, until the learner takes a step."""
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


@dataclass
class Outcome:
    faults: list[str]
    pauses: dict[str, list[float]]
    """Seconds from a fault until the learner next took a step."""
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
    """`goal`: a mean return that is to be reached after the last fault, if any; `weights`: how often each comes.

    Raises RunFailedError where the run does not come back or reach the goal, or its replay differs.
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
    """Times from each fault until the learner next took a step."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = defaultdict(list)
        """By the name of the fault."""
        self.open: list[tuple[str, float, tuple[int, int]]] = []
        """Name, time, epoch and version of faults after which no step was seen yet."""
        self._began = (0, 0)
        """The newest epoch, and the version in which it was first seen."""

    def begin(self, name: str, status: RunStatus | None) -> None:
        """A fault has happened; `status`: before it."""
        self.open.append((name, time.monotonic(), (status.epoch, status.version) if status else (0, 0)))

    def end(self, status: RunStatus | None) -> None:
        if status is None:
            return
        now, reached = time.monotonic(), (status.epoch, status.version)
        if status.epoch > self._began[0]:
            self._began = reached
        # A restarted learner goes back to its checkpoint: it has taken a step when it is beyond that.
        over = [one for one in self.open if reached > max(one[2], self._began)]
        for name, since, _ in over:
            self.seconds[name].append(now - since)
        self.open = [one for one in self.open if one not in over]

    def longer_than(self, seconds: float) -> str | None:
        """The oldest open fault, if it is as old as that."""
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
