"""The hosts that the other tests here stand on."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.waiting import until
from tests.hosts import network as networks
from tests.hosts.network import Network, network

pytestmark = [
    pytest.mark.hosts,
    pytest.mark.skipif(bool(networks.lacking()), reason=networks.lacking()),
]


@pytest.fixture
def three(nothing_left_behind: None) -> Iterator[Network]:
    with network("h1", "h2", "h3") as one:
        yield one


def test_each_has_its_own_name_address_and_files(three: Network) -> None:
    here = Path("/etc/hosts").read_text(), os.uname().nodename, set(Path("/etc").iterdir()), socket.if_nameindex()
    for number, host in enumerate(three.hosts, 1):
        assert host.run(["hostname"]) == f"h{number}\n"
        assert f" {host.address}/24 " in host.run(["ip", "-4", "address", "show", "dev", "eth0"])
        host.path("/etc/only-here").write_text(host.name)
        assert host.run(["cat", "/etc/only-here"]) == host.name
        host.run(["mkdir", "/tmp/a3cd-test"])
    assert not Path("/tmp/a3cd-test").exists()
    now = Path("/etc/hosts").read_text(), os.uname().nodename, set(Path("/etc").iterdir()), socket.if_nameindex()
    assert now == here


def test_they_reach_one_another(three: Network) -> None:
    first, second, third = three.hosts
    with first.inside():
        listener = socket.create_server(("", 5555))
    with listener:
        for host in (second, third):
            with host.inside(), socket.create_connection((first.address, 5555), timeout=10) as one:
                assert one.getsockname()[0] == host.address
                accepted, where = listener.accept()
                accepted.close()
                assert where[0] == host.address
        assert second.run(["getent", "hosts", third.name]).split() == [third.address, third.name]


def test_a_command_is_the_process_that_was_started(three: Network, tmp_path: Path) -> None:
    host = three.hosts[0]
    process = host.popen(["sleep", "1000"], tmp_path)
    until(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n", "the command to run")
    assert Path(f"/proc/{process.pid}/cwd").readlink() == tmp_path
    assert [found.pid for found in host.processes()] == [process.pid]
    process.terminate()
    assert process.wait() == -signal.SIGTERM


def test_all_is_removed_after_a_failure(nothing_left_behind: None) -> None:
    with pytest.raises(subprocess.CalledProcessError), network("h1", "h2") as one:
        stray = one.hosts[0].popen(["sh", "-c", "sleep 1000 & sleep 1000"])
        until(lambda: len(one.hosts[0].processes()) == 3, "its processes to run")
        one.hosts[1].run(["false"])
    assert stray.wait() == -signal.SIGKILL
