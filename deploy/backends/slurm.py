"""Actors as tasks of Slurm job arrays: task N of a job with this launcher's name is slot N."""

import contextlib
import os
import re
import shlex
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from deploy.backends.base import Backend, Ended, Observation
from deploy.backends.process import ONE_THREAD
from deploy.backends.runner import ToolError, last_line, run

SET_HERE = frozenset({"array", "job-name", "parsable", "wrap", "test-only", "wait", "help", "version"})
"""Options of sbatch that an operator may not give."""
OUT_OF_SIGHT = frozenset({"clusters", "cluster-constraint", "uid"})
"""Nor these: squeue and scancel would not see jobs on another cluster or of another user."""
TOOL_SECONDS = 60.0
"""Slurm's tools themselves wait for an answer for its MessageTimeout, 10 s unless a site sets more, and try again."""
_UNWANTED = r"SQUEUE_.*|SCANCEL_.*|SBATCH_CLUSTERS|SBATCH_ARRAY_INX|SBATCH_WAIT|SLURM_CLUSTERS"
"""Environment variables that would change what the tools do or show, as their options do. Those of sbatch that choose
resources are the operator's."""
_WAITING = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"})
_ORDINARY = frozenset({"None", "Priority", "Resources", "BeginTime", ""})
"""Reasons for waiting that pass by themselves."""
_LIMIT = re.compile(r"Invalid job array specification|Job violates accounting/QOS policy")
"""What sbatch says about an array beyond MaxArraySize, or beyond the tasks a user may have: it did nothing then."""
_TASK = re.compile(r"^ *(\d+)\|(\d+)\|([^|\n]*)\|([^|\n]*?) *$", re.MULTILINE)
"""A line of squeue: job, slot, state and reason of a task of an array. Other jobs do not match."""
_FIELD = re.compile(r"(\w+)=(\S*)")


def script(program: Sequence[str], words: Sequence[str], launcher: str) -> str:
    """The script of a task; `program`: a3cd; `words`: the learner's address, and more options of `a3cd actor`."""
    name = f'{shlex.quote(f"{launcher}-")}"$SLURM_ARRAY_TASK_ID"'  # as `actor_name`
    command = shlex.join([*program, "actor", *words, "--launcher", launcher])
    variables = " ".join(f"{variable}={value}" for variable, value in ONE_THREAD.items())
    # The actor replaces the shell, so that Slurm's SIGTERM reaches it.
    return f"#!/bin/sh\nexport {variables}\nexec {command} --name {name}\n"


class SlurmBackend(Backend):
    """Grows by one sbatch for all new slots, as far as limits allow, shrinks by scancel of single tasks."""

    interval = 30.0  # a shorter one would burden the cluster; an observation follows each request at once
    outlives = True

    def __init__(self, name: str, script: str, options: Sequence[str] = (), run: Callable[..., str] = run) -> None:
        """`name` of the jobs, `script` of a task; `options` of sbatch, without their dashes."""
        self._run = partial(run, seconds=TOOL_SECONDS, unset=_UNWANTED)
        self._name = name
        self._script = script
        self._options = [f"--{option}" for option in options]
        self._tasks: dict[int, str] = {}
        """Slot -> JOB_TASK of the tasks submitted or seen, until their end is reported."""

    def observe(self) -> Observation:
        """The tasks that squeue lists under this name; of two tasks in one slot the later is cancelled."""
        options = ("--noheader", "--array", f"--user={os.getuid()}", f"--name={self._name}", "--format=%F|%K|%T|%r")
        listed = _TASK.findall(self._run("squeue", *options))
        alive: dict[int, str] = {}
        waiting: dict[int, str] = {}
        surplus: list[str] = []
        for job, number, state, reason in sorted(listed, key=lambda task: int(task[0])):
            slot, task = int(number), f"{job}_{number}"
            if alive.setdefault(slot, task) != task:
                surplus.append(task)
            elif state in _WAITING:
                waiting[slot] = reason
        if surplus:
            with contextlib.suppress(ToolError):  # the next observation tries again
                self._run("scancel", *surplus)
        self._tasks |= alive
        return Observation(frozenset(alive), frozenset(waiting), _note(waiting.values()))

    def shown(self, slot: int) -> str:
        command = self._script.splitlines()[-1].removeprefix("exec ")
        return f"{shlex.join(['sbatch', f'--array={slot}', f'--job-name={self._name}', *self._options])}: {command}"

    def start(self, slots: Sequence[int]) -> None:
        """Submits a job array, or several smaller ones where a limit of Slurm refuses it as a whole.

        Raises ToolError for the tasks that are refused nevertheless.
        """
        size, left = len(slots), list(slots)
        while left:
            try:
                self._submit(left[:size])
                left = left[size:]
            except ToolError as error:
                size = min(size, len(left)) // 2
                if size and _LIMIT.search(str(error)):
                    continue
                accepted = len(slots) - len(left)
                if not accepted:
                    raise
                raise ToolError(f"{accepted} of {len(slots)} actors submitted; {error}") from None

    def _submit(self, slots: Sequence[int]) -> None:
        """Submits one job array; the operator's options come last and win."""
        array = ",".join(map(str, slots))
        own = (f"--array={array}", "--ntasks=1", "--open-mode=truncate", f"--output={self._name}-%a.log")
        words = ("sbatch", "--parsable", f"--job-name={self._name}", *own, *self._options)
        said = self._run(*words, stdin=self._script)
        job = last_line(said).partition(";")[0]  # JOB, or JOB;CLUSTER
        if job.isdecimal():  # known before the next observation: a task may have failed by then
            self._tasks |= {slot: f"{job}_{slot}" for slot in slots}

    def stop(self, slots: Sequence[int], kill: bool = False) -> None:  # noqa: ARG002
        """Slurm sends SIGTERM, and SIGKILL after its KillWait; a waiting task is taken from the queue."""
        self._run("scancel", *(self._tasks[slot] for slot in slots))

    def exit_status(self, slot: int) -> Ended:
        """Says how the task ended, by what Slurm still knows of it and by its output, if this host sees the file.

        Without accounting, Slurm knows a task for some minutes after its end.
        """
        task = self._tasks.pop(slot, "")
        try:
            told = self._run("scontrol", "--oneliner", "show", "job", task) if task else ""
        except ToolError:
            told = ""
        fields = dict(_FIELD.findall(told))
        state = fields.get("JobState", "")
        if state in ("COMPLETED", "CANCELLED"):
            return Ended(slot, 0)
        code, _, number = fields.get("ExitCode", "1:0").partition(":")
        exit_code = 128 + int(number) if number not in ("", "0") else int(code) or 1
        why = f"{state or 'gone from the queue'} ({fields.get('Reason', 'no reason given')})"
        words = [f"slurm task {task or slot}: {why}"]
        output = Path(fields.get("StdOut", ""))  # this host may see the file
        with contextlib.suppress(OSError), output.open(encoding="utf-8", errors="replace") as file:
            words += [last_line(line) for line in deque(file, 10)]
        return Ended(slot, exit_code, "\n".join(words))


def _note(reasons: Iterable[str]) -> str:
    counts = Counter(reason for reason in reasons if reason not in _ORDINARY)
    return "; ".join(f"slurm: {count} waiting: {reason}" for reason, count in sorted(counts.items()))
