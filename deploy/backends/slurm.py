"""Actors as tasks of Slurm job arrays: task N of a job with this launcher's name is slot N."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from deploy.backends.base import Backend, Ended, Observation
from deploy.backends.process import ONE_THREAD
from deploy.backends.runner import Runner, ToolError, last_line

SET_HERE = frozenset({"array", "job-name", "parsable", "wrap", "test-only", "wait", "help", "version"})
"""Options of sbatch that an operator cannot give: the launcher needs its own."""
_WAITING = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"})
_GOOD_ENDS = frozenset({"COMPLETED", "CANCELLED"})
_ORDINARY = frozenset({"None", "Priority", "Resources", "BeginTime", ""})
"""Reasons for waiting that pass by themselves."""
_FIELD = re.compile(r"(\w+)=(\S*)")
_TAIL_BYTES, _WORDS = 8192, 10
_ENVIRONMENT = " ".join(("export", *(f"{name}={value}" for name, value in ONE_THREAD.items())))


def script(program: str, words: Sequence[str], launcher: str) -> str:
    """The script of a task: the actor replaces the shell, so that Slurm's SIGTERM reaches it.

    `words`: the learner's address, and more options of `a3cd actor`; every word is quoted.
    """
    name = f'{shlex.quote(f"{launcher}-")}"$SLURM_ARRAY_TASK_ID"'  # as `actor_name`
    command = shlex.join([program, "actor", *words, "--launcher", launcher])
    return f"#!/bin/sh\n{_ENVIRONMENT}\nexec {command} --name {name}\n"


class SlurmBackend(Backend):
    """Grows by one sbatch for all new slots, shrinks by scancel of single tasks."""

    interval = 5.0
    outlives = True

    def __init__(self, name: str, script: str, options: Sequence[str] = (), *, runner: Runner | None = None) -> None:
        """`name` of the jobs, `script` of a task; `options` of sbatch, without their dashes."""
        self._runner = runner or Runner()
        self._name = name
        self._script = script
        self._options = [f"--{option}" for option in options]
        self._tasks: dict[int, str] = {}
        """Slot -> JOB_TASK of the tasks submitted or seen, until their end is reported."""

    def observe(self) -> Observation:
        """The tasks that squeue lists under this name; of two tasks in one slot the later is cancelled."""
        options = ("--noheader", "--array", f"--user={os.getuid()}", f"--name={self._name}", "--format=%F|%K|%T|%r")
        listed = self._runner.run("squeue", *options).check()
        tasks: dict[int, tuple[int, str, str]] = {}
        surplus: list[str] = []
        for job, slot, state, reason in sorted(filter(None, map(_task, listed.splitlines()))):
            if slot in tasks:
                surplus.append(f"{job}_{slot}")
            else:
                tasks[slot] = (job, state, reason)
        if surplus:
            with contextlib.suppress(ToolError):  # the next observation tries again
                self._runner.run("scancel", *surplus).check()
        self._tasks |= {slot: f"{job}_{slot}" for slot, (job, _, _) in tasks.items()}
        waiting = {slot: reason for slot, (_, state, reason) in tasks.items() if state in _WAITING}
        return Observation(frozenset(tasks), frozenset(waiting), _note(waiting.values()))

    def start(self, slots: Sequence[int]) -> None:
        """Submits one job array; the operator's options come last and win."""
        array = ",".join(map(str, slots))
        options = (f"--array={array}", "--ntasks=1", "--open-mode=truncate", f"--output={self._name}-%a.log")
        words = ("sbatch", "--parsable", f"--job-name={self._name}", *options, *self._options)
        said = self._runner.run(*words, stdin=self._script).check()
        job = last_line(said).partition(";")[0]  # JOB, or JOB;CLUSTER
        if job.isdecimal():  # known before the next observation: a task may have failed by then
            self._tasks |= {slot: f"{job}_{slot}" for slot in slots}

    def stop(self, slots: Sequence[int], kill: bool = False) -> None:  # noqa: ARG002
        """Slurm sends SIGTERM, and SIGKILL after its KillWait; a waiting task is taken from the queue."""
        self._runner.run("scancel", *(self._tasks[slot] for slot in slots)).check()

    def exit_status(self, slot: int) -> Ended:
        """By what Slurm still knows of the task (some minutes, without accounting), and its output if it is here."""
        task = self._tasks.pop(slot, "")
        try:
            told = self._runner.run("scontrol", "--oneliner", "show", "job", task).check() if task else ""
        except ToolError:
            told = ""
        fields = dict(_FIELD.findall(told))
        state = fields.get("JobState", "")
        if state in _GOOD_ENDS:
            return Ended(slot, 0)
        code, _, number = fields.get("ExitCode", "1:0").partition(":")
        exit_code = 128 + int(number) if number not in ("", "0") else int(code) or 1
        why = f"{state or 'gone from the queue'} ({fields.get('Reason', 'no reason given')})"
        words = (f"slurm task {task or slot}: {why}", *_tail(fields.get("StdOut", "")))
        return Ended(slot, exit_code, "\n".join(words))


def _task(line: str) -> tuple[int, int, str, str] | None:
    """Job, slot, state, reason; None for a job that is no task of an array."""
    fields = line.strip().split("|")
    if len(fields) != 4 or not fields[0].isdecimal() or not fields[1].isdecimal():
        return None
    return int(fields[0]), int(fields[1]), fields[2], fields[3]


def _note(reasons: Iterable[str]) -> str:
    counts = Counter(reason for reason in reasons if reason not in _ORDINARY)
    return "; ".join(f"slurm: {count} waiting: {reason}" for reason, count in sorted(counts.items()))


def _tail(path: str) -> list[str]:
    """The last lines of a task's output, if this host sees the file."""
    if not path:
        return []
    try:
        with Path(path).open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            return [last_line(line) for line in file.read().decode(errors="replace").splitlines()[-_WORDS:]]
    except OSError:
        return []
