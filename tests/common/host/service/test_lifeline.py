from __future__ import annotations

import os
import subprocess
import sys

import psutil
import pytest

from common.host.service.lifeline import Lifeline

pytestmark = pytest.mark.usefixtures("nothing_left_behind")

# Several processes share one pipe here: os.write keeps their lines whole.
PARENT = """
import os, subprocess, sys, time
from common.host.service.lifeline import Lifeline
line = Lifeline()
children = [subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdin=line.child_end) for _ in range(2)]
os.write(1, b"%d %d\\n" % tuple(child.pid for child in children))
time.sleep(60)
"""
POLITE = """
import os, time
from common.host.service import lifeline
from common.host.service.signals import Signals
with Signals() as signals:
    lifeline.watch()
    os.write(1, b"watching\\n")
    while signals.requested is None:
        time.sleep(0.01)
    os.write(1, b"left\\n")
"""
STUCK = """
import os, signal, time
from common.host.service import lifeline
lifeline.GRACE_SECONDS = 0.1
signal.signal(signal.SIGTERM, signal.SIG_IGN)
lifeline.watch()
os.write(1, b"watching\\n")
while True:
    time.sleep(60)
"""


@pytest.mark.parametrize(("child", "farewells"), [(POLITE, 2), (STUCK, 0)])
def test_children_end_when_their_parent_is_killed(child: str, farewells: int) -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT, child], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        lines = sorted(parent.stdout.readline() for _ in range(3))
        assert lines[1:] == ["watching\n"] * 2
        children = [psutil.Process(int(pid)) for pid in lines[0].split()]
        parent.kill()
        assert parent.stdout.read() == "left\n" * farewells  # until the last child has closed it
    _, alive = psutil.wait_procs(children, timeout=10)
    assert not [one for one in alive if one.status() != psutil.STATUS_ZOMBIE]


def test_no_end_is_inherited() -> None:
    line = Lifeline()
    assert not os.get_inheritable(line.child_end)
    assert not os.get_inheritable(line._held)
    line.close()
