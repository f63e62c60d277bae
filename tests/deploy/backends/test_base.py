from __future__ import annotations

import pytest

from deploy.backends.base import Backend, Ended


def test_a_backend_has_all_five() -> None:
    class Half(Backend):
        def start(self, slot: int) -> None:
            raise NotImplementedError

    with pytest.raises(TypeError, match=r"close.*poll.*running.*stop"):
        Half()  # type: ignore[abstract]


def test_ended_without_a_word() -> None:
    assert Ended(3, 1) == Ended(slot=3, exit_code=1, last_words="")
