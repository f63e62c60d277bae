"""A name that stands for an IPv4 and an IPv6 address, as localhost does on most systems, in a mount namespace."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hosts import network as networks

_WHY = networks.lacking()
pytestmark = [pytest.mark.hosts, pytest.mark.timeout(120), pytest.mark.skipif(bool(_WHY), reason=_WHY)]
HOSTS = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"
CONNECTS = """
import sys, time, zmq
from common.host.addresses import Address
from common.host.security.access import LearnerEndpoint
from common.wire import sockets
from common.wire.client import LearnerLink, introduce
from common.wire.membership import Membership
context = zmq.Context()
first, second = sockets.reserve_pair(Address(sys.argv[1], 0))
port = first.getsockname()[1]
router = sockets.router(context, 1000)
sockets.bind(router, first)
access = LearnerEndpoint(Address("localhost", port))
link = LearnerLink(context, access)
membership = Membership(introduce("observer", access), time.monotonic())
end = time.monotonic() + 60.0
while not link.watch(time.monotonic(), membership):
    assert time.monotonic() < end
    time.sleep(0.01)
context.destroy(linger=0)
"""


@pytest.mark.parametrize("bind", ["127.0.0.1", "[::1]"])
def test_it_is_reached_whichever_of_them_the_learner_listens_on(tmp_path: Path, bind: str) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 here")
    hosts = tmp_path / "hosts"
    hosts.write_text(HOSTS)
    command = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', hosts]
    subprocess.run([*command, sys.executable, "-c", CONNECTS, bind], check=True, timeout=90)
