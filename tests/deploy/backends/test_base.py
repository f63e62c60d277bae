from __future__ import annotations

from deploy.backends.base import Requests, actor_name, group_name
from tests.helpers.launching import Actors


def test_what_is_killed_was_asked_before_and_starts_come_last() -> None:
    actors = Actors()
    actors.request(Requests(start=frozenset({3, 1}), stop=frozenset({0}), kill=frozenset({2})))
    assert actors.calls == ["stop 0", "kill 2", "start 1", "start 3"]
    actors.request(Requests(planned=4))
    assert len(actors.calls) == 4


def test_names_of_groups_are_plain_and_of_one_launcher_and_learner() -> None:
    name = group_name("key/lab,1", "tcp://gpu:5555")
    assert name.startswith("a3cd-key_lab_1-")
    assert name == group_name("key/lab,1", "tcp://gpu:5555")
    assert len({name, group_name("key/lab_1", "tcp://gpu:5555"), group_name("key/lab,1", "tcp://gpu:5556")}) == 3
    assert actor_name("lab", 3) == "lab-3"
