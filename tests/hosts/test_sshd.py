"""Logging in from one host to the others."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hosts import network as networks
from tests.hosts import sshd
from tests.hosts.network import Network, network

_WHY = networks.lacking() or sshd.lacking()
pytestmark = [pytest.mark.hosts, pytest.mark.skipif(bool(_WHY), reason=_WHY)]


@pytest.fixture
def three(nothing_left_behind: None, tmp_path: Path) -> Iterator[Network]:
    with network("h1", "h2", "h3") as one, sshd.servers(one.hosts[1:], one.hosts[0], tmp_path):
        yield one


def test_the_one_with_the_key_comes_in(three: Network) -> None:
    first, second, third = three.hosts
    assert first.run(["ssh", second.name, "hostname"]) == "h2\n"
    assert first.run(["ssh", f"root@{third.address}", "hostname; command -v a3cd"]).startswith("h3\n/")
    stranger = second.popen(
        ["ssh", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", third.address, "hostname"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = stranger.communicate(timeout=networks.PATIENCE_SECONDS)
    assert (out, stranger.returncode) == (b"", 255)
    assert b"Permission denied (publickey)" in err
