from __future__ import annotations

from common.host.service.standstill import TOLD_SECONDS, Standstill


def test_only_a_long_one_is_told_and_once() -> None:
    standstill = Standstill(100.0)
    assert standstill.look(100.0 + TOLD_SECONDS - 0.1) == 0.0
    assert standstill.look(200.0) == 100.0 - TOLD_SECONDS + 0.1
    assert standstill.look(200.1) == 0.0
