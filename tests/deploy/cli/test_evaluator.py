from __future__ import annotations

from typing import Any

import pytest

from tests.helpers.command_line import AT, Stand, a3cd


def test_it_is_started_with_what_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    run, niced = Stand(0), []
    monkeypatch.setattr("actor.evaluator.daemon.run", run)
    monkeypatch.setattr("deploy.cli.evaluator.give_way", niced.append)
    assert a3cd("evaluator", "localhost").exit_code == 0
    assert (run.arguments, niced) == ((AT,), [0])
    wanted: dict[str, Any] = {"name": "e", "modules": ("m",), "wait": 3.0}
    given = ("--name", "e", "--allow-module", "m", "--wait", 3, "--nice", 19)
    assert a3cd("evaluator", "localhost", *given).exit_code == 0
    assert (run.options, niced) == (wanted, [0, 19])
