"""Against a systemctl that keeps units in a file, and a journalctl; the real ones are tried in tests/systemd."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.backends.base import Condition, Ended, Found
from deploy.backends.systemd import SystemdBackend
from tests.helpers.programs import first_in_path, lines, program, until

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
    known = [fresh | state.get(name, {{}}) for name in names]
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


def turned(backend: SystemdBackend) -> list[Ended | Found]:
    """After one more look."""
    backend._turn()
    with backend._lock:
        news, backend._news = backend._news, []
    return news


def test_running_units_are_found_and_stay_when_the_launcher_ends(systemd: Systemd) -> None:
    systemd.put({unit(0): {"ActiveState": "active"}, unit(2): {"ActiveState": "activating"}})
    backend = SystemdBackend(3)
    news: list[Ended | Found] = []
    until(lambda: news.extend(backend.poll()) or backend.condition.settled)
    assert news == [Found(0), Found(2)]
    assert backend.condition == Condition(starting=frozenset({2}))
    backend.start(0)
    backend.start(2)
    backend.poll()
    backend.close()
    assert systemd.calls == []


def test_from_start_to_stop(backend: SystemdBackend, systemd: Systemd) -> None:
    turned(backend)
    backend.start(0)
    backend.start(1)
    turned(backend)
    assert turned(backend) == [], "a unit with a job is as good as started"
    assert backend.condition.starting == {0, 1}
    systemd.put({unit(0): {"ActiveState": "active"}, unit(1): {"ActiveState": "active"}})
    assert turned(backend) == []
    assert backend.condition == Condition()
    backend.stop(1)
    turned(backend)
    assert turned(backend) == [Ended(1, 0)]
    before = "--system --no-ask-password --no-pager"
    assert systemd.calls == [
        f"{before} start --no-block -- {unit(0)} {unit(1)}",
        f"{before} stop --no-block -- {unit(1)}",
    ]


def test_one_that_systemd_starts_again_has_not_ended_and_is_told_of(backend: SystemdBackend, systemd: Systemd) -> None:
    systemd.put({unit(0): {"ActiveState": "active"}})
    turned(backend)
    systemd.put(
        {
            unit(0): {
                "ActiveState": "activating",
                "SubState": "auto-restart",
                "Result": "exit-code",
                "ExecMainCode": "1",
                "ExecMainStatus": "75",
            }
        }
    )
    assert turned(backend) == []
    assert backend.condition == Condition(
        "a3cd-actor@0.service: systemd is starting it again after result exit-code (exit code 75)",
        starting=frozenset({0}),
    )


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
    systemd.put({unit(1): {"ActiveState": "active"}})
    turned(backend)
    systemd.put({unit(1): {"ActiveState": "failed", "InvocationID": "abc", **shown}})
    (ended,) = turned(backend)
    assert ended == Ended(
        1,
        exit_code,
        f"a3cd-actor@1.service: loaded, result {shown['Result']}\nloading\n"
        "error: no environment 'x' (_SYSTEMD_INVOCATION_ID=abc)",
    )


def test_without_a_journal_the_result_is_the_last_word(
    backend: SystemdBackend, systemd: Systemd, tmp_path: Path
) -> None:
    program(tmp_path, "journalctl", "import sys; sys.exit('No journal files were opened')")
    systemd.put({unit(1): {"ActiveState": "active"}})
    turned(backend)
    systemd.put({unit(1): {"ActiveState": "failed", "Result": "exit-code", "InvocationID": "abc"}})
    (ended,) = turned(backend)
    assert isinstance(ended, Ended)
    assert ended.last_words == "a3cd-actor@1.service: loaded, result exit-code"


def test_no_systemd_is_trouble(backend: SystemdBackend, systemd: Systemd, tmp_path: Path) -> None:
    (tmp_path / "broken").write_text("Failed to connect to bus: Host is down")
    assert turned(backend) == []
    assert backend.condition.trouble == "systemctl: Failed to connect to bus: Host is down (exit code 1)"
    assert backend.condition.ready == frozenset()


def test_a_systemctl_that_shows_fewer_units(backend: SystemdBackend, tmp_path: Path) -> None:
    program(tmp_path, "systemctl", "print('ActiveState=active')")
    assert turned(backend) == []
    assert backend.condition.trouble == "systemctl: 1 units shown of 3"


def test_the_users_own_manager_and_another_unit(systemd: Systemd) -> None:
    backend = SystemdBackend(1, user=True, template="lab@")
    turned(backend)
    backend.start(0)
    turned(backend)
    assert systemd.calls == ["--user --no-ask-password --no-pager start --no-block -- lab@0.service"]
