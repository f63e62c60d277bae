"""A Ray cluster on this host, each raylet with two CPUs, in a separate process that takes commands."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

_MARK = "A3CD_TEST_CLUSTER"
SCRIPT = """
import sys
from ray.cluster_utils import Cluster

size = dict(num_cpus=2, object_store_memory=80 << 20)
head = dict(size, include_dashboard=False, temp_dir=sys.argv[1])
cluster = Cluster(initialize_head=True, head_node_args=head)
nodes = [cluster.head_node]
print(cluster.address, flush=True)
for line in sys.stdin:
    word, *numbers = line.split()
    if word == "add":
        nodes.append(cluster.add_node(**size))
    elif word == "kill":
        nodes[int(numbers[0])].kill_raylet()
    elif word == "behead":
        cluster.head_node.kill_gcs_server()
    print("done", flush=True)
"""


class RayCluster:
    """The cluster; its head is node 0."""

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")  # a short path, because Ray's sockets are below it
        place = Path(self._folder, "ray")  # Ray notes the cluster's address here, but does not make the folder
        place.mkdir()
        self._mark = secrets.token_hex(8)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", SCRIPT, str(place)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | {_MARK: self._mark, "RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": self._folder},
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().strip()

    def tell(self, *words: object) -> None:
        """Runs a command: add; kill NODE (its raylet); behead (kills the GCS server, which knows all nodes)."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{' '.join(map(str, words))}\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "done\n"

    def actors(self) -> list[int]:
        """Returns the process ids of a3cd's actors in the cluster."""
        return [process.pid for process in self._processes() if "--lifeline" in process.cmdline()]

    def _processes(self) -> Iterator[psutil.Process]:
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                alive = process.status() != psutil.STATUS_ZOMBIE
                if alive and process.environ().get(_MARK) == self._mark:
                    yield process

    def close(self) -> None:
        while processes := list(self._processes()):
            for process in processes:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            self._process.poll()
        self._process.communicate()
        shutil.rmtree(self._folder, ignore_errors=True)


@contextmanager
def ray_cluster() -> Iterator[RayCluster]:
    """Runs a cluster, and removes everything of it afterwards."""
    one = RayCluster()
    try:
        assert one.address, "Ray did not start"
        yield one
    finally:
        one.close()
