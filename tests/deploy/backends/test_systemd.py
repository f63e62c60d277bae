"""Against a systemctl that keeps units in a file, and a journalctl; the real ones are tried in tests/systemd."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.backends.base import Ended, Observation
from deploy.backends.runner import ToolError, run
from deploy.backends.systemd import SystemdBackend, TransientBackend
from tests.helpers.programs import first_in_path, lines, program

pytestmark = pytest.mark.usefixtures("nothing_left_behind")
SYSTEMCTL = """
import json, sys
from pathlib import Path
base = Path({base!r})
with (base / "calls").open("a") as file:
    file.write(" ".join(sys.argv[1:]) + "\\n")
if (base / "broken").exists():
    sys.exit((base / "broken").read_text())
state = json.loads((base / "state").read_text())
options, names = sys.argv[1:sys.argv.index("--")], sys.argv[sys.argv.index("--") + 1:]
if "show" in options:
    fresh = {{"LoadState": "loaded", "ActiveState": "inactive", "Result": "success"}}
    loaded = [name for name in state if name.startswith(names[-1][:-9])]
    names = [*names[:-1], *(name for name in loaded if name not in names)]
    known = [{{"Id": name}} | fresh | state.get(name, {{}}) for name in names]
    print("\\n\\n".join("\\n".join(f"{{k}}={{v}}" for k, v in unit.items()) for unit in known))
for name in names:
    if "start" in options and state.get(name, {{}}).get("ActiveState") != "active":
        state[name] = {{"Job": "7"}}
    if "stop" in options:
        state[name] = {{"ActiveState": "inactive"}}
(base / "state").write_text(json.dumps(state))
"""
JOURNALCTL = """
import sys
print("loading")
print(f"error: no environment 'x' ({sys.argv[-1]})")
"""


class Systemd:
    def __init__(self, base: Path) -> None:
        self.base = base
        program(base, "systemctl", SYSTEMCTL.format(base=str(base)))
        program(base, "journalctl", JOURNALCTL)
        self.put({})

    def put(self, units: dict[str, dict[str, Any]]) -> None:
        (self.base / "state").write_text(json.dumps(units))

    @property
    def calls(self) -> list[str]:
        """Those that change something."""
        return [line for line in lines(self.base / "calls") if " show " not in line]


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Systemd:
    monkeypatch.setenv("PATH", first_in_path(tmp_path))
    return Systemd(tmp_path)


@pytest.fixture
def backend(nothing_left_behind: None, systemd: Systemd) -> Iterator[SystemdBackend]:
    one = SystemdBackend(3)
    yield one
    one.close()


def unit(slot: int) -> str:
    return f"a3cd-actor@{slot}.service"


def test_from_start_to_stop(backend: SystemdBackend, systemd: Systemd) -> None:
    systemd.put({unit(2): {"ActiveState": "activating"}})
    assert backend.observe() == Observation(frozenset({2}), frozenset({2}))
    backend.start([0, 1])
    both = frozenset({0, 1})
    assert backend.observe() == Observation(both | {2}, both | {2}), "a unit with a job is as good as started"
    systemd.put({unit(0): {"ActiveState": "active"}, unit(1): {"ActiveState": "active"}})
    assert backend.observe() == Observation(both)
    backend.stop([1])
    assert backend.observe() == Observation(frozenset({0}))
    assert backend.exit_status(1) == Ended(1, 0)
    before = "--system --no-ask-password --no-pager"
    assert systemd.calls == [
        f"{before} start --no-block -- {unit(0)} {unit(1)}",
        f"{before} stop --no-block -- {unit(1)}",
    ]


def test_units_beyond_the_slots_are_seen(backend: SystemdBackend, systemd: Systemd) -> None:
    active = {"ActiveState": "active"}
    systemd.put({unit(1): active, unit(3): active, unit(7): active, "a3cd-actor@x.service": active, "other@4": active})
    assert backend.observe() == Observation(frozenset({1, 3, 7}))
    backend.stop([3, 7])
    assert backend.observe() == Observation(frozenset({1}))


AGAIN = {"ActiveState": "activating", "SubState": "auto-restart"}


def test_one_that_its_learner_sent_away_has_not_ended_and_is_told_of(backend: SystemdBackend, systemd: Systemd) -> None:
    systemd.put({unit(0): AGAIN | {"Result": "success", "ExecMainCode": "1", "ExecMainStatus": "0"}})
    assert backend.observe() == Observation(
        frozenset({0}),
        frozenset({0}),
        "a3cd-actor@0.service: its learner sent it away, and systemd is starting it again",
    )
    assert systemd.calls == []


@pytest.mark.parametrize(
    ("result", "code", "status", "exit_code"),
    [("exit-code", 1, 75, 75), ("exit-code", 1, 78, 78), ("signal", 2, 9, 137), ("watchdog", 3, 6, 134)],
)
@pytest.mark.parametrize("state", ["auto-restart", "auto-restart-queued"])
def test_one_that_failed_is_left_to_the_launcher_and_not_started_again_by_systemd(
    backend: SystemdBackend, systemd: Systemd, result: str, code: int, status: int, exit_code: int, state: str
) -> None:
    failed = {"SubState": state, "Result": result, "ExecMainCode": str(code), "ExecMainStatus": str(status)}
    systemd.put({unit(0): AGAIN | failed, unit(1): {"ActiveState": "active"}})
    assert backend.observe() == Observation(frozenset({1}))
    assert backend.exit_status(0).exit_code == exit_code
    assert [call.partition("stop")[2] for call in systemd.calls] == [f" --no-block -- {unit(0)}"]


@pytest.mark.parametrize(
    ("shown", "exit_code"),
    [
        ({"Result": "exit-code", "ExecMainCode": "1", "ExecMainStatus": "78"}, 78),
        ({"Result": "signal", "ExecMainCode": "2", "ExecMainStatus": "9"}, 137),
        ({"Result": "watchdog", "ExecMainCode": "3", "ExecMainStatus": "6"}, 134),
        ({"Result": "timeout", "ExecMainCode": "1", "ExecMainStatus": "0"}, 1),
        ({"Result": "resources"}, 1),
    ],
)
def test_a_failed_unit_has_ended_with_its_last_words(
    backend: SystemdBackend, systemd: Systemd, shown: dict[str, str], exit_code: int
) -> None:
    systemd.put({unit(1): {"ActiveState": "failed", "InvocationID": "abc", **shown}})
    assert backend.observe() == Observation()
    assert backend.exit_status(1) == Ended(
        1,
        exit_code,
        f"a3cd-actor@1.service: loaded, result {shown['Result']}\nloading\n"
        "error: no environment 'x' (_SYSTEMD_INVOCATION_ID=abc)",
    )


def test_without_a_journal_the_result_is_the_last_word(
    backend: SystemdBackend, systemd: Systemd, tmp_path: Path
) -> None:
    program(tmp_path, "journalctl", "import sys; sys.exit('No journal files were opened')")
    systemd.put({unit(1): {"ActiveState": "failed", "Result": "exit-code", "InvocationID": "abc"}})
    backend.observe()
    assert backend.exit_status(1).last_words == "a3cd-actor@1.service: loaded, result exit-code"


def test_no_systemd_is_an_error(backend: SystemdBackend, systemd: Systemd, tmp_path: Path) -> None:
    (tmp_path / "broken").write_text("Failed to connect to bus: Host is down")
    with pytest.raises(ToolError, match=r"^systemctl: Failed to connect to bus: Host is down \(exit code 1\)$"):
        backend.observe()


def test_the_users_own_manager_and_another_unit(systemd: Systemd) -> None:
    backend = SystemdBackend(1, user=True, unit="lab@")
    backend.start([0])
    assert systemd.calls == ["--user --no-ask-password --no-pager start --no-block -- lab@0.service"]


@pytest.fixture
def transient(systemd: Systemd) -> TransientBackend:
    return TransientBackend("a3cd-lab-", user=True, run=run, command=lambda slot: f"~/a3cd actor 'ann s {slot}'")


def test_transient_units_are_begun_in_one_shell(
    transient: TransientBackend, systemd: Systemd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    program(
        tmp_path,
        "systemd-run",
        f"import json, sys; open({str(tmp_path / 'runs')!r}, 'a').write(json.dumps(sys.argv[1:]) + chr(10))",
    )
    transient.start([0, 1])
    assert systemd.calls == ["--user reset-failed -- a3cd-lab-0.service a3cd-lab-1.service"]
    for slot, line in enumerate(lines(tmp_path / "runs")):
        words = json.loads(line)
        assert words[0] == "--user"
        assert {f"--unit=a3cd-lab-{slot}.service", "--property=Restart=always", "--service-type=notify"} <= set(words)
        assert words[words.index("--") :] == ["--", "/home/ann/a3cd", "actor", f"ann s {slot}"]
    assert len(lines(tmp_path / "runs")) == 2


def test_a_transient_unit_that_exists_is_an_error(transient: TransientBackend, tmp_path: Path) -> None:
    program(tmp_path, "systemd-run", "import sys; sys.exit('Failed to start transient service unit: Unit exists')")
    with pytest.raises(ToolError, match="Unit exists"):
        transient.start([0])


def test_many_transient_units_are_begun_in_batches_and_one_that_is_refused_holds_none_back(
    transient: TransientBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(
        tmp_path,
        "systemd-run",
        "import sys\n"
        "if '--unit=a3cd-lab-0.service' in sys.argv: sys.exit('Failed to start\\ntransient unit: Unit exists *')\n"
        f"print(*sys.argv[1:], file=open({str(tmp_path / 'runs')!r}, 'a'))",
    )
    monkeypatch.setattr("deploy.backends.systemd.BATCH", 2)
    with pytest.raises(ToolError, match=r"^systemd-run: transient unit: Unit exists \* \(1 of 5\)$"):
        transient.start(range(5))
    begun = [word for line in lines(tmp_path / "runs") for word in line.split() if word.startswith("--unit=")]
    assert begun == [f"--unit=a3cd-lab-{slot}.service" for slot in range(1, 5)]


def test_no_line_of_a_batch_is_longer_than_linux_lets_an_argument_be() -> None:
    given: list[str] = []

    def host(*words: str) -> str:
        given.append(shlex.join(words))
        return ""

    name = f"a3cd-{'x' * 64}-12345678-"
    actor = f"/opt/a3cd/bin/a3cd actor tcp://gpu:5555 --launcher {'x' * 64} {'--allow-module ' + 'm' * 60 + ' '} " * 4
    TransientBackend(name, user=False, run=host, command=lambda slot: f"{actor} {slot}").start(range(1000, 1400))
    assert len(given) == 8
    assert max(map(len, given)) < 131_071


def test_a_host_that_is_lost_between_batches_is_not_asked_again() -> None:
    given: list[str] = []

    def host(*words: str) -> str:
        given.append(words[-1])
        raise ToolError("ssh: no route")

    with pytest.raises(ToolError, match=r"^ssh: no route$"):
        TransientBackend("a3cd-lab-", user=False, run=host, command=str).start(range(400))
    assert len(given) == 1


def test_transient_units_are_found_by_name_those_beyond_the_slots_too(
    transient: TransientBackend, systemd: Systemd
) -> None:
    active = {"ActiveState": "active"}
    assert transient.observe() == Observation()
    systemd.put({"a3cd-lab-0.service": active, "a3cd-lab-7.service": active, "a3cd-lab-x.service": active})
    assert transient.observe() == Observation(frozenset({0, 7}))
    assert transient.exit_status(1) == Ended(1, 0), "systemd forgets what ended well"
