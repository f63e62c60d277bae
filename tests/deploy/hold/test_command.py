from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from deploy.cli.command import cli


def test_the_relay_and_the_holder(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    monkeypatch.setattr("deploy.hold.relay.run", lambda: calls.append("relay"))
    monkeypatch.setattr("deploy.hold.holder.serve", lambda *given: calls.append(given))
    assert CliRunner().invoke(cli, ["hold"]).exit_code == 0
    assert CliRunner().invoke(cli, ["hold", "--serve", "/x", "--lock", "3", "--listener", "4"]).exit_code == 0
    assert calls == ["relay", (Path("/x"), 3, 4)]
    assert "hold" not in CliRunner().invoke(cli, ["--help"]).output


def test_it_needs_no_torch() -> None:
    script = "import sys, deploy.cli.command, deploy.hold.relay, deploy.hold.holder; print('torch' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    assert said == "False\n"
