"""Actors as tasks of Slurm job arrays: task N of a job with this launcher's name is slot N."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from deploy.backends.base import Ended
from deploy.backends.client import Client, ClientError, last_line
from deploy.backends.managed import ManagedBackend, Seen

LOOK_SECONDS = 5.0
SET_HERE = frozenset({"array", "job-name", "parsable", "wrap", "test-only", "wait", "help", "version"})
"""Options of sbatch that an operator cannot give: the launcher lives by them."""
_WAITING = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"})
_GOOD_ENDS = frozenset({"COMPLETED", "CANCELLED"})
_ORDINARY = frozenset({"None", "Priority", "Resources", "BeginTime", ""})
"""Reasons for waiting that pass by themselves."""
_FIELD = re.compile(r"(\w+)=(\S*)")
_TAIL_BYTES, _WORDS = 8192, 10
_ENVIRONMENT = "export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 CUDA_VISIBLE_DEVICES="


def job_name(launcher: str, learner: str) -> str:
    """Of all jobs of a launcher for one learner; squeue reads a comma as the end of a name, so none is in it."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", launcher)[:64]
    return f"a3cd-{plain}-{hashlib.sha256(f'{launcher} {learner}'.encode()).hexdigest()[:8]}"


def script(program: str, way: Sequence[str], launcher: str) -> str:
    """What a task runs: an actor in the place of the shell, so that Slurm's SIGTERM reaches it.

    `way`: the learner's address, and the options that go with it; every word is quoted.
    """
    name = f'{shlex.quote(f"{launcher}-")}"$SLURM_ARRAY_TASK_ID"'
    command = shlex.join([program, "actor", *way, "--launcher", launcher])
    return f"#!/bin/sh\n{_ENVIRONMENT}\nexec {command} --name {name}\n"


class SlurmBackend(ManagedBackend):
    """Grows by one sbatch for all slots asked for since the last look, shrinks by scancel of single tasks."""

    def __init__(self, name: str, script: str, options: Sequence[str] = (), *, client: Client | None = None) -> None:
        """`name` of the jobs, `script` of a task; `options` of sbatch, without their dashes."""
        super().__init__(LOOK_SECONDS, client)
        self._name = name
        self._script = script
        self._options = [f"--{option}" for option in options]
        self._tasks: dict[int, str] = {}
        """Slot -> JOB_TASK, of what was submitted or seen, until its end is told."""

    def look(self) -> Seen:
        """What squeue lists under this name; of two tasks in one slot the later is cancelled."""
        listed = self.client.call(
            *("squeue", "--noheader", "--array", f"--user={os.getuid()}", f"--name={self._name}"),
            "--format=%F|%K|%T|%r",
        ).check()
        tasks: dict[int, tuple[int, str, str]] = {}
        surplus: list[str] = []
        for job, slot, state, reason in sorted(filter(None, map(_task, listed.splitlines()))):
            if slot in tasks:
                surplus.append(f"{job}_{slot}")
            else:
                tasks[slot] = (job, state, reason)
        if surplus:
            with contextlib.suppress(ClientError):  # seen again, and tried again, with the next look
                self.client.call("scancel", *surplus).check()
        self._tasks |= {slot: f"{job}_{slot}" for slot, (job, _, _) in tasks.items()}
        waiting = {slot: reason for slot, (_, state, reason) in tasks.items() if state in _WAITING}
        return Seen(frozenset(tasks), frozenset(waiting), _note(waiting.values()))

    def begin(self, slots: Sequence[int]) -> None:
        """One job array; the operator's options come last and win."""
        said = self.client.call(
            *("sbatch", "--parsable", f"--job-name={self._name}", f"--array={','.join(map(str, slots))}"),
            *("--ntasks=1", "--open-mode=truncate", f"--output={self._name}-%a.log", *self._options),
            stdin=self._script,
        ).check()
        job = last_line(said).partition(";")[0]  # JOB, or JOB;CLUSTER
        if job.isdecimal():  # known before the next look: a task may have failed by then
            self._tasks |= {slot: f"{job}_{slot}" for slot in slots}

    def cancel(self, slots: Sequence[int]) -> None:
        """Slurm sends SIGTERM, and SIGKILL after its KillWait; a task still waiting is taken from the queue."""
        self.client.call("scancel", *(self._tasks[slot] for slot in slots)).check()

    def autopsy(self, slot: int) -> Ended:
        """By what Slurm still knows of the task (some minutes, without accounting), and its output if it is here."""
        task = self._tasks.pop(slot, "")
        try:
            told = self.client.call("scontrol", "--oneliner", "show", "job", task).check() if task else ""
        except ClientError:
            told = ""
        fields = dict(_FIELD.findall(told))
        state = fields.get("JobState", "")
        if state in _GOOD_ENDS:
            return Ended(slot, 0)
        code, _, number = fields.get("ExitCode", "1:0").partition(":")
        exit_code = 128 + int(number) if number not in ("", "0") else int(code) or 1
        what = (
            f"slurm task {task or slot}: {state or 'gone from the queue'} ({fields.get('Reason', 'no reason given')})"
        )
        return Ended(slot, exit_code, "\n".join((what, *_tail(fields.get("StdOut", "")))))


def _task(line: str) -> tuple[int, int, str, str] | None:
    """Job, slot, state, reason; None for what is no task of an array."""
    fields = line.strip().split("|")
    if len(fields) != 4 or not fields[0].isdecimal() or not fields[1].isdecimal():
        return None
    return int(fields[0]), int(fields[1]), fields[2], fields[3]


def _note(reasons: Iterable[str]) -> str:
    counts = Counter(reason for reason in reasons if reason not in _ORDINARY)
    return "; ".join(f"slurm: {count} waiting: {reason}" for reason, count in sorted(counts.items()))


def _tail(path: str) -> list[str]:
    """Last lines of a task's output, where this host sees the same files."""
    if not path:
        return []
    try:
        with Path(path).open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            return [last_line(line) for line in file.read().decode(errors="replace").splitlines()[-_WORDS:]]
    except OSError:
        return []
