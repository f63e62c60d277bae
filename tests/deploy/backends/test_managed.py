"""With a manager that is a set of slots; its turns are taken by hand, so nothing depends on time."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from deploy.backends.base import Condition, Ended, Found
from deploy.backends.client import ClientError
from deploy.backends.managed import ManagedBackend, Seen
from tests.helpers.programs import until


class Manager(ManagedBackend):
    def __init__(self, *alive: int) -> None:
        super().__init__(interval=1.0)
        self.alive = set(alive)
        self.starting: set[int] = set()
        self.note = self.sick = ""
        self.lost_answer = False
        self.calls: list[str] = []

    def look(self) -> Seen:
        if self.sick:
            raise ClientError(self.sick)
        return Seen(frozenset(self.alive), frozenset(self.starting), self.note)

    def begin(self, slots: Sequence[int]) -> None:
        self.calls.append(f"begin {list(slots)}")
        if not self.sick or self.lost_answer:
            self.alive |= set(slots)
        if self.sick or self.lost_answer:
            raise ClientError(self.sick or "no answer")

    def cancel(self, slots: Sequence[int]) -> None:
        self.calls.append(f"cancel {list(slots)}")
        if self.sick:
            raise ClientError(self.sick)
        self.alive -= set(slots)

    def autopsy(self, slot: int) -> Ended:
        return Ended(slot, 7, "dead")

    def turn(self, count: int = 1) -> list[Ended | Found]:
        for _ in range(count):
            self._turn()
        return self._news_now()

    def _news_now(self) -> list[Ended | Found]:
        with self._lock:
            news, self._news = self._news, []
        return news

    def pause_over(self) -> None:
        self._pause._until = 0.0


def test_nothing_is_ready_before_the_first_look() -> None:
    manager = Manager()
    assert manager.condition == Condition(ready=frozenset(), settled=False)
    manager.turn()
    assert manager.condition == Condition()


def test_all_asked_for_since_the_last_turn_begin_together() -> None:
    manager = Manager()
    manager.turn()
    manager.start(0)
    manager.start(2)
    assert manager.running == manager.condition.starting == {0, 2}
    assert manager.calls == []
    assert manager.turn() == []
    assert manager.calls == ["begin [0, 2]"]
    assert (manager.running, manager.condition.starting) == ({0, 2}, frozenset())


def test_what_is_there_already_is_found_and_never_begun_again() -> None:
    manager = Manager(1, 3)
    manager.start(3)
    assert manager.turn() == [Found(1)]
    assert manager.calls == []
    assert manager.running == {1, 3}
    assert manager.turn() == []


def test_an_answer_that_was_lost_doubles_nothing() -> None:
    manager = Manager()
    manager.turn()
    manager.lost_answer = True
    manager.start(0)
    manager.turn()
    assert manager.condition.trouble == "no answer"
    manager.pause_over()
    assert manager.turn() == []
    assert manager.calls == ["begin [0]"]
    assert manager.condition == Condition()


def test_a_request_that_fails_is_made_again_and_is_no_actors_failure() -> None:
    manager = Manager()
    manager.start(0)
    manager.turn()
    manager.alive.clear()
    assert manager.turn() == [Ended(0, 7, "dead")]

    broken = Manager()
    broken.turn()
    broken.start(0)
    broken.begin = lambda slots: (_ for _ in ()).throw(ClientError("Unit not found"))  # type: ignore[method-assign]
    assert broken.turn() == []
    assert broken.condition == Condition("Unit not found", starting=frozenset({0}))
    assert broken.turn() == [], "its pause is not over"
    assert broken.condition.trouble == "Unit not found"
    del broken.begin
    broken.pause_over()
    assert broken.turn() == []
    assert (broken.alive, broken.condition) == ({0}, Condition())


def test_a_manager_that_cannot_be_seen_ends_nothing_and_begins_nothing() -> None:
    manager = Manager(0)
    manager.turn()
    manager.sick = "squeue: no answer within 10 s"
    manager.start(1)
    assert manager.turn() == []
    assert manager.calls == []
    assert manager.running == {0, 1}
    condition = manager.condition
    assert (condition.trouble, condition.ready, condition.settled) == (manager.sick, frozenset(), True)
    manager.sick = ""
    manager.pause_over()
    manager.turn()
    assert manager.calls == ["begin [1]"]


def test_stopping_is_asked_once_and_its_end_told_once() -> None:
    manager = Manager(0, 1)
    manager.turn()
    manager.stop(1)
    manager.cancel = lambda slots: manager.calls.append(f"cancel {slots}")  # type: ignore[method-assign]
    manager.turn()
    manager.stop(1, kill=True)
    manager.turn(2)
    assert manager.calls == ["cancel [1]"]
    manager.alive.remove(1)
    assert manager.turn() == [Ended(1, 7, "dead")]
    assert manager.turn() == []
    manager.stop(1)
    assert manager.turn() == []


def test_a_stop_that_fails_is_asked_again() -> None:
    manager = Manager(0)
    manager.turn()
    manager.stop(0)
    failing = manager.cancel
    manager.cancel = lambda slots: (_ for _ in ()).throw(ClientError("denied"))  # type: ignore[method-assign]
    manager.turn()
    assert manager.condition.trouble == "denied"
    manager.cancel = failing  # type: ignore[method-assign]
    manager.turn()
    assert (manager.alive, manager.condition.trouble) == (set(), "")


def test_one_given_up_before_it_began_never_begins() -> None:
    manager = Manager()
    manager.turn()
    manager.start(0)
    manager.stop(0)
    assert manager.turn() == [Ended(0, 0)]
    assert (manager.calls, manager.running) == ([], set())


def test_starting_and_notes_are_passed_on() -> None:
    manager = Manager(0, 1)
    manager.starting, manager.note = {1}, "1 waiting"
    manager.turn()
    assert manager.condition == Condition("1 waiting", starting=frozenset({1}))


@pytest.mark.usefixtures("nothing_left_behind")
def test_polls_and_the_end_take_turns_on_another_thread() -> None:
    manager = Manager(4)
    news: list[Ended | Found] = []
    until(lambda: news.extend(manager.poll()) or news)
    assert news == [Found(4)]
    manager.start(0)
    manager.start(1)
    manager.poll()
    until(lambda: manager.alive == {0, 1, 4})
    manager.stop(4)
    manager.close()
    assert manager.alive == {0, 1}, "what was asked for last is done, and no more"
