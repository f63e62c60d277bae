"""Cost of strangers for a learner that trains with two actors: frames a second and memory, before and during attacks.

    python -m benchmarks strangers [--seconds 20]

CartPole-v1 at a pace that leaves a core idle. The attacks are: a thousand idle connections; a million subscriptions;
one endless message; a flood of noise over connections that are then reset; an observer that asks for the status a
thousand times a second. The attackers run on this machine and take their share of it.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import time
from collections.abc import Callable

import psutil
import zmq

from benchmarks import tables
from benchmarks.runs import Training
from benchmarks.tables import Cell
from benchmarks.throughput import rate
from common.wire import sockets
from common.wire.frames import pack
from common.wire.messages import PROTOCOL, Hello, Inspect
from tests.helpers.stranger import PING, Stranger, frame

SETTINGS = {
    "environment.num_envs": 4,
    "environment.step_seconds": 0.002,
    "scaling.minimum": 2,
    "scaling.maximum": 2,
    "limits.until_return": 1e9,
    "limits.frames": 1_000_000_000,
}
IDLE, SUBSCRIPTIONS, STATUS_PER_SECOND = 1000, 1_000_000, 1000
STARTING_SECONDS = 60.0
MIB = 2**20
COLUMNS = ("attack", "frames/s before", "during", "ratio", "MiB before", "largest during", "after")


def idle(port: int) -> None:
    with contextlib.ExitStack() as stack:
        for number in range(IDLE):
            stack.enter_context(Stranger(port + number % 2, handshake=False))
        time.sleep(3600)


def subscriptions(port: int) -> None:
    with Stranger(port + 1, "SUB") as one:
        for begin in range(0, SUBSCRIPTIONS, 10_000):
            one.socket.sendall(b"".join(frame(b"\1topic %d" % number) for number in range(begin, begin + 10_000)))


def endless_message(port: int) -> None:
    with Stranger(port) as one:
        while True:
            one.socket.sendall(frame(b"x", more=True) * 10_000)


def noise(port: int) -> None:
    with Stranger(port) as one:
        one.pour((20 * frame(b"x") + PING) * 500, 50)
        one.reset()


def status(port: int) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    one = sockets.dealer(context, f"tcp://127.0.0.1:{port}", 2**24)
    one.send(pack(Hello(protocol=PROTOCOL, role="observer", name="asker", incarnation="asker", host="here", pid=1)))
    due = time.monotonic()
    while True:
        one.send(pack(Inspect()))
        due += 1 / STATUS_PER_SECOND
        while one.poll(max(0, int(1e3 * (due - time.monotonic())))):
            one.recv_multipart()


ATTACKS: tuple[Callable[[int], None], ...] = (idle, subscriptions, endless_message, noise, status)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0, help="before, and during each attack")
    seconds = parser.parse_args().seconds
    tables.machine()
    with Training("CartPole-v1", label="strangers", settings=SETTINGS) as training:
        training.wait(STARTING_SECONDS, {"actors": 2, "gradients": 500})
        rows = [measure(training, attack, seconds) for attack in ATTACKS]
    tables.show(f"A learner with two actors, {seconds:g} s each", COLUMNS, rows)


def measure(training: Training, attack: Callable[[int], None], seconds: float) -> tuple[Cell, ...]:
    """Return a row of COLUMNS."""
    (learner,) = training.processes("learner")
    port = min(one.laddr.port for one in learner.net_connections("tcp") if one.status == psutil.CONN_LISTEN)
    before, _ = _speed(training, learner, seconds)
    memory = learner.memory_info().rss / MIB
    attacker = multiprocessing.Process(target=_again_and_again, args=(attack, port), daemon=True)
    attacker.start()
    during, largest = _speed(training, learner, seconds)
    attacker.kill()
    attacker.join()
    time.sleep(2.0)
    after = learner.memory_info().rss / MIB
    training.say(f"{attack.__name__}: {before:.0f} frames/s, then {during:.0f}; {memory:.0f} MiB, then {largest:.0f}")
    return attack.__name__, before, during, during / before, memory, largest, after


def _again_and_again(attack: Callable[[int], None], port: int) -> None:
    while True:
        with contextlib.suppress(OSError, AssertionError):  # the learner ended the connection
            attack(port)


def _speed(training: Training, learner: psutil.Process, seconds: float) -> tuple[float, float]:
    """Return the frames a second over `seconds`, and the learner's largest memory in that time."""
    first, end, largest = training.rows()[-1], time.monotonic() + seconds, 0.0
    while time.monotonic() < end:
        largest = max(largest, learner.memory_info().rss / MIB)
        time.sleep(0.05)
    return rate(first, training.rows()[-1], "frames"), largest


if __name__ == "__main__":
    main()
