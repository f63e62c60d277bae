"""Against a Ray of a few lines: references are numbers, results are what the test says."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from deploy.backends.base import Ended
from deploy.backends.ray_driver import PATIENCE_SECONDS, Answer, Ask, Plan, Seats, serve

pytestmark = pytest.mark.usefixtures("nothing_left_behind")
PLAN = Plan("auto", "lab", ("actor", "tcp://gpu:5555"), 1.0, 512 << 20, {"spot": 1.0})
GONE = "The actor 94c97039f5478a0b921303da01000000 is\nunavailable"


class RayError(Exception):
    pass


class RuntimeEnvSetupError(RayError):
    pass


class Ray:
    exceptions = SimpleNamespace(RayError=RayError, RuntimeEnvSetupError=RuntimeEnvSetupError)

    def __init__(self) -> None:
        self.results: dict[str, Any] = {}
        self.calls: list[str] = []
        self.made = 0

    def make(self) -> Any:
        number, self.made = self.made, self.made + 1

        def method(name: str) -> Any:
            def remote(*arguments: Any) -> str:
                self.calls.append(f"{name} {number} {arguments}")
                return f"{name} {number}"

            return SimpleNamespace(remote=remote)

        return SimpleNamespace(number=number, **{name: method(name) for name in ("host", "run", "stop")})

    def wait(self, references: Sequence[str], num_returns: int, timeout: float) -> tuple[list[str], list[str]]:
        assert (num_returns, timeout) == (len(references), 0)
        done = [reference for reference in references if reference in self.results]
        return done, [reference for reference in references if reference not in done]

    def get(self, reference: str, timeout: float) -> Any:
        result = self.results[reference]
        if isinstance(result, Exception):
            raise result
        return result

    def kill(self, handle: Any) -> None:
        self.calls.append(f"free {handle.number}")

    def shutdown(self) -> None:
        self.calls.append("shutdown")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def ray() -> Ray:
    return Ray()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def seats(ray: Ray, clock: Clock) -> Seats:
    return Seats(ray, ray.make, PLAN, clock)


def sets(*slots: int) -> frozenset[int]:
    return frozenset(slots)


def test_actors_wait_for_room_and_play(seats: Seats, ray: Ray) -> None:
    assert seats.ask(Ask(start=(0, 3))) == Answer(sets(0, 3), sets(0, 3))
    assert ray.calls[:2] == ["host 0 ()", "run 0 (['actor', 'tcp://gpu:5555', '--name', 'lab-0'],)"]
    ray.results["host 0"] = "h1"
    assert seats.ask(Ask()) == Answer(sets(0, 3), sets(3))
    assert seats.ask(Ask(start=(0,))).alive == {0, 3}
    assert ray.made == 2, "who is there is not doubled"


def test_who_waits_for_long_is_told_of_with_what_is_wanted(seats: Seats, clock: Clock) -> None:
    assert seats.ask(Ask(start=(0, 1))).note == ""
    clock.now = PATIENCE_SECONDS
    assert seats.ask(Ask()).note == "ray: 2 waiting for room: cpu=1, memory=512Mi, spot=1 each (--request)"


def test_an_actor_that_ends_gives_its_seat_back(seats: Seats, ray: Ray) -> None:
    seats.ask(Ask(start=(2,)))
    ray.results |= {"host 0": "h1", "run 0": (78, "no environment 'x'")}
    assert seats.ask(Ask()) == Answer(ended=(Ended(2, 78, "no environment 'x'"),))
    assert ray.calls[-1] == "free 0"
    assert seats.ask(Ask()) == Answer()


def test_one_that_is_lost_before_it_said_where_it_is_ends_no_other(seats: Seats, ray: Ray) -> None:
    seats.ask(Ask(start=(0, 1)))
    ray.results |= {"host 0": RayError(GONE), "host 1": "h1"}  # Ray fails the two calls of a seat one after the other
    assert seats.ask(Ask()) == Answer(sets(0, 1), sets(0))
    ray.results["run 0"] = RayError(GONE)
    answer = seats.ask(Ask())
    assert answer.note == "ray: lost on the way: RayError: The actor is unavailable"
    assert (answer.alive, [(end.slot, end.exit_code) for end in answer.ended]) == (sets(1), [(0, 0)])


def test_one_without_room_is_gone_at_once_and_another_is_asked_then_killed_then_given_up(
    seats: Seats, ray: Ray
) -> None:
    seats.ask(Ask(start=(0, 1)))
    ray.results["host 1"] = "h1"
    seats.ask(Ask())
    assert seats.ask(Ask(stop=(0, 1))) == Answer(sets(1), ended=(Ended(0, 0),))
    assert ray.calls[-2:] == ["free 0", "stop 1 (False,)"]
    assert seats.ask(Ask(kill=(1,))).alive == {1}
    assert ray.calls[-1] == "stop 1 (True,)"
    assert seats.ask(Ask(kill=(1, 7))) == Answer(ended=(Ended(1, 0),))
    assert ray.calls[-1] == "free 1"


def test_what_ray_loses_is_told_together_and_is_no_failure(seats: Seats, ray: Ray) -> None:
    seats.ask(Ask(start=(0, 1, 2)))
    ray.results |= {f"host {slot}": "h1" for slot in range(3)}
    seats.ask(Ask())
    ray.results |= {"run 0": RayError(GONE), "run 1": RayError(GONE.replace("94", "95"))}
    answer = seats.ask(Ask())
    assert answer.note == "ray: 2 x lost on h1: RayError: The actor is unavailable"
    assert [end.exit_code for end in answer.ended] == [0, 0]
    assert answer.alive == {2}
    assert seats.ask(Ask()).note == "", "told once"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (RuntimeEnvSetupError("pip failed"), "ray: no runtime environment: pip failed"),
        (
            RayError("a long traceback\n" * 50 + "ModuleNotFoundError: No module named 'deploy'"),
            "ray: a3cd is not installed for Ray on a host: ModuleNotFoundError: No module named 'deploy'",
        ),
    ],
)
def test_a_host_where_no_actor_can_start(seats: Seats, ray: Ray, error: Exception, words: str) -> None:
    seats.ask(Ask(start=(0,)))
    ray.results |= {"host 0": error, "run 0": error}
    (ended,) = seats.ask(Ask()).ended
    assert ended.exit_code == 78
    assert ended.last_words == words


def talk(connect: Any, *lines: bytes) -> tuple[int, list[Answer]]:
    """Exit code and answers of a driver that is told these lines."""
    ours, theirs = socket.socketpair()
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(serve(theirs, connect)))
    thread.start()
    with ours:
        ours.sendall(b"".join(line + b"\n" for line in lines))
        ours.shutdown(socket.SHUT_WR)
        said = b"".join(iter(lambda: ours.recv(4096), b""))
    thread.join()
    return codes[0], [msgspec.json.decode(line, type=Answer) for line in said.splitlines()]


def test_a_driver_answers_until_the_launcher_has_gone(seats: Seats, ray: Ray) -> None:
    plans: list[Plan] = []

    def connect(plan: Plan) -> Seats:
        plans.append(plan)
        return seats

    code, answers = talk(connect, *map(msgspec.json.encode, (PLAN, Ask(start=(1,)), Ask())))
    assert (code, plans) == (0, [PLAN])
    assert answers == [Answer(), *[Answer(sets(1), sets(1))] * 2]
    assert ray.calls[-1] == "shutdown"


def test_a_driver_without_ray_says_so_and_ends() -> None:
    def connect(plan: Plan) -> Seats:
        raise ConnectionError("Could not find\nany running Ray")

    code, answers = talk(connect, msgspec.json.encode(PLAN))
    assert (code, answers) == (75, [Answer(refused="ConnectionError: Could not find any running Ray")])
