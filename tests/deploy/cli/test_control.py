from __future__ import annotations

import json
from typing import Any

import pytest

from common.errors import RefusedError
from common.wire.messages import Halt, Save, Saved, Scale, Scaled
from tests.helpers.command_line import AT, a3cd

SAVED = Saved(version=1200, path="/srv/run/checkpoints/0000001200")


def given(stand: Any, answer: Any, *words: object, code: int = 0) -> tuple[str, Any]:
    """What is printed, and the order that the learner got."""
    give = stand("deploy.cli.orders.give", answer)
    result = a3cd(*words)
    assert result.exit_code == code, result.output
    assert (give.arguments[0], give.arguments[2]) == (AT, 5.0)
    return result.stdout.strip(), give.arguments[1]


def test_stop_and_checkpoint_say_what_is_on_the_disk(stand: Any) -> None:
    said = f"checkpoint of version 1200: {SAVED.path}"
    assert given(stand, SAVED, "checkpoint", "localhost") == (said, Save())
    assert given(stand, SAVED, "stop", "localhost") == (f"stopped; {said}", Halt())
    for command in ("stop", "checkpoint"):
        printed, _ = given(stand, SAVED, command, "localhost", "--json")
        assert json.loads(printed) == {"version": 1200, "checkpoint": SAVED.path}


@pytest.mark.parametrize("command", ["stop", "checkpoint"])
def test_what_is_not_on_the_disk_ends_with_75(stand: Any, command: str, caplog: pytest.LogCaptureFixture) -> None:
    assert given(stand, Saved(version=1, error="No space left on device"), command, "localhost", code=75)[0] == ""
    assert "checkpoint could not be written: No space left on device" in caplog.text


def test_a_refusal_ends_with_78(stand: Any, caplog: pytest.LogCaptureFixture) -> None:
    given(stand, RefusedError("the learner refused this operator: no"), "stop", "localhost", code=78)
    assert "the learner refused this operator: no" in caplog.text


@pytest.mark.parametrize(
    ("actors", "answer", "said"),
    [
        ("4", Scaled(minimum=4, maximum=4, wanted=4, room=8), "4 actors: 4 wanted now"),
        ("0", Scaled(minimum=0, maximum=0, wanted=0, room=0), "0 actors: 0 wanted now"),
        ("2..8", Scaled(minimum=2, maximum=8, wanted=3, room=8), "2 to 8 actors: 3 wanted now"),
        (
            "9",
            Scaled(minimum=9, maximum=9, wanted=9, room=4),
            "9 actors: 9 wanted now; the launchers have room for 4",
        ),
    ],
)
def test_scale_says_the_bounds_and_what_they_come_to(stand: Any, actors: str, answer: Scaled, said: str) -> None:
    order = Scale(minimum=answer.minimum, maximum=answer.maximum)
    assert given(stand, answer, "scale", "localhost", actors) == (said, order)
    printed, _ = given(stand, answer, "scale", "localhost", actors, "--json")
    assert json.loads(printed) == {
        "minimum": answer.minimum,
        "maximum": answer.maximum,
        "wanted": answer.wanted,
        "room": answer.room,
    }
