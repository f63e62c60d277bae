"""Time that a learner needs to welcome a thousand actors that come at once: `python -m benchmarks join_storm`.

The actors are raw sockets of one process; the learner is another process on the same machine. All actors connect first,
then say hello at once; "seconds" is the time from the first hello to the last welcome, in which the learner's processor
time is also measured.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import zmq

from benchmarks import tables
from benchmarks.runs import spent
from common.host.addresses import Address
from common.wire import sockets
from common.wire.frames import pack, split
from common.wire.messages import PROTOCOL, Hello, Welcome

PATIENCE_SECONDS = 120.0


def hello(number: int) -> Hello:
    return Hello(
        protocol=PROTOCOL,
        role="actor",
        name=f"actor-{number}",
        incarnation=f"incarnation-{number}",
        host="elsewhere",
        pid=number,
        codecs=["none", "fp16", "int8", "int8+lz4"],
    )


def storm(address: Address, actors: int, learner: psutil.Process) -> tuple[float, float, int]:
    """Return the seconds until all are welcome, the learner's processor seconds in them, and the bytes of weights."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    context.set(zmq.MAX_SOCKETS, 2 * actors + 16)
    peers = [sockets.dealer(context, str(address), 2**30) for _ in range(actors)]
    until = time.monotonic() + PATIENCE_SECONDS
    for peer in peers:
        if not peer.poll(max(0, int(1e3 * (until - time.monotonic()))), zmq.POLLOUT):
            raise SystemExit("not all could connect: is the limit of open files high enough?")
    headers = [pack(hello(number)) for number in range(actors)]
    poller = zmq.Poller()
    for peer in peers:
        poller.register(peer, zmq.POLLIN)
    before = spent(learner)
    begun = time.monotonic()
    for peer, header in zip(peers, headers, strict=True):
        peer.send(header)
    welcome, size = 0, 0
    while welcome < actors:
        ready = poller.poll(1000)
        if time.monotonic() - begun > PATIENCE_SECONDS:
            raise SystemExit(f"{welcome} of {actors} were welcome after {PATIENCE_SECONDS:.0f} s")
        for peer, _ in ready:
            message, body = split(peer.recv_multipart())
            if isinstance(message, Welcome):
                welcome += 1
                size += len(body or b"")
                poller.unregister(peer)
    seconds = time.monotonic() - begun
    busy = spent(learner) - before
    for peer in peers:
        peer.close(linger=0)
    context.term()
    return seconds, busy, size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--actors", type=int, default=1000)
    parser.add_argument("--profile", type=Path, help="where to write a profile of the learner (pstats)")
    given = parser.parse_args()
    tables.machine()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    pair = sockets.reserve_pair(Address("127.0.0.1", 0))
    address = Address("127.0.0.1", pair[0].getsockname()[1])
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "run.toml"
        config.write_text('environment.id = "CartPole-v1"\n')
        profile = [] if given.profile is None else ["-m", "cProfile", "-o", str(given.profile)]
        command = [sys.executable, *profile, "-m", "deploy.cli.command", "learner", "--config", str(config)]
        descriptors = tuple(one.fileno() for one in pair)
        words = ["--listeners", ",".join(map(str, descriptors)), "--run-dir", f"{folder}/run"]
        with subprocess.Popen(
            [*command, "--bind", str(address), *words], pass_fds=descriptors, stderr=subprocess.DEVNULL
        ) as learner:
            for one in pair:
                one.close()
            try:
                seconds, busy, size = storm(address, given.actors, psutil.Process(learner.pid))
            finally:
                learner.terminate()
    row = ("all welcome", seconds, busy, 1e6 * busy / given.actors, size / 2**20)
    columns = ("", "seconds", "learner's processor seconds", "microseconds each", "MiB of weights")
    tables.show(f"{given.actors} actors at once", columns, [row])


if __name__ == "__main__":
    main()
