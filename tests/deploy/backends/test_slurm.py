"""Against a Slurm of three programs and a file."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.backends.background_loop import BackgroundLoop, Report, close_all
from deploy.backends.base import Ended, Observation, Place
from deploy.backends.runner import ToolError
from deploy.backends.slurm import SlurmBackend, script
from deploy.launcher.ending import TOOLS_SECONDS
from tests.helpers.programs import first_in_path, lines, program
from tests.helpers.waiting import until

pytestmark = pytest.mark.usefixtures("nothing_left_behind")
PROGRAM = """
import json, os, sys
from pathlib import Path
base, name = Path({base!r}), Path(sys.argv[0]).name
with (base / "calls").open("a") as file:
    file.write(json.dumps([name, *sys.argv[1:]]) + "\\n")
(base / f"environment-{{name}}").write_text(json.dumps(dict(os.environ)))
if (base / f"no-{{name}}").exists():
    sys.exit((base / f"no-{{name}}").read_text())
state = json.loads((base / "state").read_text())
given = dict(word[2:].partition("=")[::2] for word in sys.argv[1:] if word.startswith("--"))
if name == "squeue":
    for task, (job_name, *shown) in state.items():
        if job_name == given["name"]:
            print(task.replace("_", "|"), *shown, sep="|")
elif name == "sbatch":
    limit = base / "limit"
    if limit.exists() and len(state) + len(given["array"].split(",")) > int(limit.read_text()):
        print("sbatch: error: QOSMaxSubmitJobPerUserLimit", file=sys.stderr)
        sys.exit("sbatch: error: Batch job submission failed: " + {policy!r})
    job = 100 + sum(line.startswith('["sbatch"') for line in (base / "calls").read_text().splitlines())
    state |= {{f"{{job}}_{{slot}}": [given["job-name"], "PENDING", "Priority"] for slot in given["array"].split(",")}}
    (base / "script").write_text(sys.stdin.read())
    print(job)
elif name == "scancel":
    state = {{task: shown for task, shown in state.items() if task not in sys.argv[1:]}}
else:
    print((base / "job").read_text())
(base / "state").write_text(json.dumps(state))
"""
POLICY = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"


class Slurm:
    def __init__(self, base: Path) -> None:
        self.base = base
        for name in ("squeue", "sbatch", "scancel", "scontrol"):
            program(base, name, PROGRAM.format(base=str(base), policy=POLICY))
        self.put({})

    def put(self, tasks: dict[str, tuple[str, ...]]) -> None:
        (self.base / "state").write_text(json.dumps(tasks))

    def get(self) -> dict[str, Any]:
        known: dict[str, Any] = json.loads((self.base / "state").read_text())
        return known

    def calls(self, name: str) -> list[list[str]]:
        return [call[1:] for call in map(json.loads, lines(self.base / "calls")) if call[0] == name]


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Slurm:
    monkeypatch.setenv("PATH", first_in_path(tmp_path))
    return Slurm(tmp_path)


@pytest.fixture
def backend(nothing_left_behind: None, slurm: Slurm) -> Iterator[SlurmBackend]:
    one = SlurmBackend("a3cd-lab", "#!/bin/sh\ntrue\n", ["partition=cpu", "exclusive"])
    yield one
    one.close()


def running(*slots: int, job: int = 7) -> dict[str, tuple[str, ...]]:
    return {f"{job}_{slot}": ("a3cd-lab", "RUNNING", "None") for slot in slots}


def test_grows_by_one_array_and_shrinks_by_tasks(backend: SlurmBackend, slurm: Slurm) -> None:
    backend.start([0, 1, 3])
    assert slurm.calls("sbatch") == [
        [
            *("--parsable", "--job-name=a3cd-lab", "--array=0,1,3", "--ntasks=1", "--open-mode=truncate"),
            *("--output=a3cd-lab-%a.log", "--partition=cpu", "--exclusive"),
        ]
    ]
    assert (slurm.base / "script").read_text() == "#!/bin/sh\ntrue\n"
    all_three = frozenset({0, 1, 3})
    assert backend.observe() == Observation(all_three, all_three), "waiting in the queue"
    backend.stop([1, 3])
    assert slurm.calls("scancel") == [["101_1", "101_3"]]
    assert backend.observe().alive == {0}
    (slurm.base / "job").write_text("JobId=1 JobState=CANCELLED ExitCode=0:15")
    assert backend.exit_status(1) == Ended(1, 0)
    backend.start([3])
    assert sorted(slurm.get()) == ["101_0", "102_3"]


def test_a_launcher_that_comes_back_finds_its_own_tasks(backend: SlurmBackend, slurm: Slurm) -> None:
    slurm.put(running(0, 2) | {"9_1": ("a3cd-other", "RUNNING", "None"), "8_N/A": ("a3cd-lab", "RUNNING", "None")})
    assert backend.observe() == Observation(frozenset({0, 2}))
    assert slurm.calls("squeue")[0][:4] == ["--noheader", "--array", f"--user={os.getuid()}", "--name=a3cd-lab"]


def test_tasks_of_a_launcher_with_more_slots_are_cancelled(backend: SlurmBackend, slurm: Slurm) -> None:
    slurm.put(running(0, 1, 2, 5))
    loop = BackgroundLoop(Place(backend, 2))
    reports: list[Report | None] = []
    until(lambda: reports.append(loop.report()) or reports[-1], "a report")
    close_all([loop])
    assert reports[-1] == Report(Observation(frozenset({0, 1})))
    assert sorted(slurm.get()) == ["7_0", "7_1"]


def test_a_slot_that_was_filled_twice_keeps_the_older(backend: SlurmBackend, slurm: Slurm) -> None:
    slurm.put(running(0, job=9) | running(0, 1, job=8))
    assert backend.observe().alive == {0, 1}
    assert sorted(slurm.get()) == ["8_0", "8_1"]


def test_tools_have_longer_than_slurm_takes_for_an_answer_and_an_end_time_for_two() -> None:
    asked: list[float] = []

    def run(*words: str, seconds: float = 10.0, **_: str) -> str:
        asked.append(seconds)
        return ""

    backend = SlurmBackend("a3cd-lab", "#!/bin/sh\n", run=run)
    backend.start([0])
    backend.observe()
    backend._tasks = {0: "7_0"}
    backend.stop([0])
    backend.exit_status(0)
    assert min(asked) > 2 * 10.0 and len(asked) == 4
    assert 2 * max(asked) <= TOOLS_SECONDS


def test_no_variable_hides_tasks_or_makes_others(
    backend: SlurmBackend, slurm: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SQUEUE_STATES", "SCANCEL_STATE", "SBATCH_CLUSTERS", "SBATCH_ARRAY_INX", "SBATCH_WAIT"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("SLURM_CLUSTERS", "other")
    monkeypatch.setenv("SBATCH_PARTITION", "cpu")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm.conf")
    backend.start([0])
    backend.observe()
    backend.stop([0])
    for tool in ("sbatch", "squeue", "scancel"):
        names = json.loads((slurm.base / f"environment-{tool}").read_text()).keys()
        found = {name for name in names if name.startswith(("SQUEUE", "SCANCEL", "SBATCH", "SLURM"))}
        assert found == {"SBATCH_PARTITION", "SLURM_CONF"}


@pytest.mark.parametrize(
    ("told", "exit_code", "what"),
    [
        ("JobState=FAILED Reason=NonZeroExitCode ExitCode=78:0", 78, "FAILED (NonZeroExitCode)"),
        ("JobState=FAILED Reason=RaisedSignal:9 ExitCode=0:9", 137, "FAILED (RaisedSignal:9)"),
        ("JobState=TIMEOUT Reason=TimeLimit ExitCode=0:0", 1, "TIMEOUT (TimeLimit)"),
        ("", 1, "gone from the queue (no reason given)"),
    ],
)
def test_a_task_that_ended(backend: SlurmBackend, slurm: Slurm, told: str, exit_code: int, what: str) -> None:
    slurm.put(running(2))
    backend.observe()
    output = slurm.base / "out.log"
    output.write_text("loading\nerror: no environment 'x'\n")
    (slurm.base / "job").write_text(f"JobId=7 ArrayTaskId=2 {told} StdOut={output}")
    assert backend.exit_status(2) == Ended(2, exit_code, f"slurm task 7_2: {what}\nloading\nerror: no environment 'x'")


def test_a_task_that_failed_before_it_was_seen(backend: SlurmBackend, slurm: Slurm) -> None:
    backend.start([2])
    (slurm.base / "job").write_text("JobId=101 ArrayTaskId=2 JobState=FAILED Reason=NonZeroExitCode ExitCode=78:0")
    assert backend.exit_status(2) == Ended(2, 78, "slurm task 101_2: FAILED (NonZeroExitCode)")
    assert slurm.calls("scontrol") == [["--oneliner", "show", "job", "101_2"]]


def test_a_task_of_which_nothing_is_known_any_more(backend: SlurmBackend, slurm: Slurm) -> None:
    slurm.put(running(2))
    backend.observe()
    (slurm.base / "no-scontrol").write_text("slurm_load_jobs error: Invalid job id specified")
    assert backend.exit_status(2) == Ended(2, 1, "slurm task 7_2: gone from the queue (no reason given)")


def test_what_slurm_refuses_is_an_error(backend: SlurmBackend, slurm: Slurm) -> None:
    (slurm.base / "no-sbatch").write_text("sbatch: error: invalid partition specified: cpu")
    with pytest.raises(ToolError, match=r"^sbatch: error: invalid partition specified: cpu \(exit code 1\)$"):
        backend.start([0])


@pytest.mark.parametrize(("limit", "arrays"), [(5, [8, 4, 4, 2, 1, 1]), (4, [8, 4, 4, 2, 1]), (0, [8, 4, 2, 1])])
def test_of_an_array_beyond_a_limit_as_much_as_is_allowed_is_submitted(
    backend: SlurmBackend, slurm: Slurm, limit: int, arrays: list[int]
) -> None:
    (slurm.base / "limit").write_text(str(limit))
    said = f"{limit} of 8 actors submitted; " if limit else ""
    with pytest.raises(ToolError, match=rf"^{said}sbatch: error: .*: Job violates accounting/QOS policy"):
        backend.start(range(8))
    asked = [call[2].removeprefix("--array=").split(",") for call in slurm.calls("sbatch")]
    assert [len(array) for array in asked] == arrays
    assert backend.observe().alive == set(range(limit))


def test_arrays_that_are_small_enough_are_no_error() -> None:
    def submit(*words: str, **_: Any) -> str:
        slots = words[3].removeprefix("--array=").split(",")
        if len(slots) > 3:
            raise ToolError("sbatch: error: Batch job submission failed: Invalid job array specification")
        arrays.append(len(slots))
        return str(len(arrays))

    arrays: list[int] = []
    SlurmBackend("a3cd-lab", "#!/bin/sh\n", run=submit).start(range(10))
    assert arrays == [2, 2, 2, 2, 2]


def test_what_slurm_may_have_done_is_not_submitted_again(backend: SlurmBackend, slurm: Slurm) -> None:
    (slurm.base / "no-sbatch").write_text("sbatch: error: Batch job submission failed: Socket timed out on send/recv")
    with pytest.raises(ToolError, match="Socket timed out"):
        backend.start(range(8))
    assert len(slurm.calls("sbatch")) == 1


def test_reasons_for_waiting_that_do_not_pass_are_told(backend: SlurmBackend, slurm: Slurm) -> None:
    waiting = ("PartitionTimeLimit", "PartitionTimeLimit", "Resources")
    slurm.put({f"7_{slot}": ("a3cd-lab", "PENDING", reason) for slot, reason in enumerate(waiting)})
    assert backend.observe().note == "slurm: 2 waiting: PartitionTimeLimit"


def test_the_script_quotes_every_word_and_becomes_the_actor(tmp_path: Path) -> None:
    shows = program(tmp_path, "a3cd; x", "import os, sys; print(sys.argv[1:], os.environ['OMP_NUM_THREADS'])")
    text = script([str(shows)], ["tcp://gpu:5555", "--allow-module", "$(id)"], "ann's lab")
    environment = {"PATH": os.environ["PATH"], "SLURM_ARRAY_TASK_ID": "12"}
    said = subprocess.run(["sh"], input=text, env=environment, capture_output=True, text=True, check=True).stdout
    words = ["actor", "tcp://gpu:5555", "--allow-module", "$(id)", "--launcher", "ann's lab", "--name", "ann's lab-12"]
    assert said == f"{words} 1\n"
