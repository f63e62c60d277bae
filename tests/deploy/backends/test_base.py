from __future__ import annotations

import pytest

from deploy.backends.base import Backend, Condition, Ended


def test_a_backend_has_all_five() -> None:
    class Half(Backend):
        def start(self, slot: int) -> None:
            raise NotImplementedError

    with pytest.raises(TypeError, match=r"close.*poll.*running.*stop"):
        Half()  # type: ignore[abstract]


def test_ended_without_a_word() -> None:
    assert Ended(3, 1) == Ended(slot=3, exit_code=1, last_words="")


def test_a_backend_that_says_no_more_is_always_ready_and_lets_no_actor_live_on() -> None:
    class Plain(Backend):
        def start(self, slot: int) -> None: ...
        def stop(self, slot: int, kill: bool = False) -> None: ...
        def close(self) -> None: ...
        def poll(self) -> list[Ended]:
            return []

        @property
        def running(self) -> set[int]:
            return set()

    plain = Plain()
    assert plain.condition == Condition("", frozenset(), None, True)
    assert (plain.outlives, plain.host(3)) == (False, "")
    plain.wish(3)
