import errno
import resource
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from common.host.addresses import Address
from common.wire import sockets
from deploy.cli.doctor import machine
from deploy.cli.doctor.machine import descriptors, disk, look, ports, terminal, threads


def test_every_finding_has_a_name_of_its_own(tmp_path: Path) -> None:
    names = [finding.name for finding in look(40_000, tmp_path)]
    assert names == ["ports 40000, 40001", "threads", "disk", "open files", "terminal"]


def test_free_ports_and_ports_in_use() -> None:
    pair = sockets.reserve_pair(Address("127.0.0.1", 0))
    port = pair[0].getsockname()[1]
    taken = ports(port)
    assert taken.state == "warn"
    assert f"{port} is in use" in taken.text
    assert "--bind" in taken.mend
    for listener in pair:
        listener.close()
    assert ports(port).state == "ok"


@pytest.mark.parametrize(
    ("environ", "state"), [({}, "ok"), ({"OMP_NUM_THREADS": "1"}, "ok"), ({"OMP_NUM_THREADS": "8"}, "warn")]
)
def test_threads(environ: dict[str, str], state: str) -> None:
    finding = threads(environ)
    assert finding.state == state
    assert "core" in finding.text


def test_a_folder_that_does_not_exist_yet_is_looked_at_above(tmp_path: Path) -> None:
    finding = disk(tmp_path / "some" / "runs")
    assert finding.state == "ok"
    assert str(tmp_path) in finding.text


def test_a_folder_that_cannot_be_written_to_is_bad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(dir: Path) -> Any:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(machine.tempfile, "TemporaryFile", refuse)
    finding = disk(tmp_path)
    assert (finding.state, finding.text) == ("bad", f"{tmp_path} cannot be written to: Permission denied")
    assert "--run-dir" in finding.mend


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda _: SimpleNamespace(free=5e6))
    finding = disk(tmp_path)
    assert finding.state == "warn"
    assert finding.text.startswith("only 5.0 MB free")


@pytest.mark.parametrize(
    ("limit", "state", "text"),
    [(256, "warn", "enough for about 96 actors"), (4096, "ok", "4096"), (resource.RLIM_INFINITY, "ok", "no limit")],
)
def test_descriptors(monkeypatch: pytest.MonkeyPatch, limit: int, state: str, text: str) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, 4096))
    finding = descriptors()
    assert finding.state == state
    assert text in finding.text


def test_descriptors_where_there_is_no_such_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "sys", SimpleNamespace(platform="win32"))
    assert descriptors().state == "ok"


def test_terminal() -> None:
    assert "plain lines" in terminal(False, 80, 24).text
    assert (terminal(True, 80, 24).state, terminal(True, 79, 24).state) == ("ok", "warn")
    assert terminal(True, 80, 23).state == "warn"
