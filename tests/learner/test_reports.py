from __future__ import annotations

import pytest

from common.wire.frames import pack, unpack
from common.wire.messages import MAX_TEXT, Heartbeat, Inspect, Status
from learner.reports import ASKED_SECONDS, STATUS_SECONDS
from learner.run import Run
from tests.helpers.run import hello_of, learner_of, sent


def test_a_flood_of_questions_is_answered_with_few_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    status = Run.status
    monkeypatch.setattr(Run, "status", lambda self, now, **more: made.append(now) or status(self, now, **more))
    core, _ = learner_of()
    for name in "xyz":
        core.handle(0.0, name.encode(), hello_of(name), None)
    for name in "ab":
        core.handle(0.0, name.encode(), hello_of(name, "observer"), None)
    answers: list[Status] = []
    for thousandth in range(1000):
        answers += sent(core.handle(1.0 + thousandth / 1000, b"ab"[thousandth % 2 :][:1], Inspect(), None), Status)
    assert len(made) <= 1 / STATUS_SECONDS + 1
    assert len({id(one) for one in answers}) == len(made), "one report serves all"
    assert 2 * 0.5 / ASKED_SECONDS < len(answers) <= 2 * (1 / ASKED_SECONDS + 1)
    assert sent(core.handle(9.0, b"a", Inspect(), None), Status)[0].report["time"] == pytest.approx(9.0)


def test_a_report_on_a_thousand_actors_with_long_errors_can_be_read() -> None:
    core, _ = learner_of()
    for number in range(1000):
        name = f"actor-{number}"
        core.handle(0.0, name.encode(), hello_of(name), None)
        core.handle(0.0, name.encode(), Heartbeat(last_error="x" * MAX_TEXT), None)
    core.handle(0.0, b"a", hello_of("a", "observer"), None)
    (status,) = sent(core.handle(1.0, b"a", Inspect(), None), Status)
    assert unpack(pack(status)) == status
