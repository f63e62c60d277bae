from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from common.host.addresses import Address
from common.host.security.access import ALLOWED, LEARNER_PAIR, LearnerEndpoint
from common.host.security.keys import KeyPair
from tests.helpers.command_line import AT, a3cd


def test_it_is_started_with_what_is_said(stand: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run, niced = stand("relay.daemon.run"), list[int]()
    monkeypatch.setattr("deploy.cli.relay.give_way", niced.append)
    assert a3cd("relay", "localhost").exit_code == 0
    assert run.arguments == (AT,)
    assert run.options == {
        "bind": Address("127.0.0.1", 5555),
        "keys": None,
        "name": "",
        "mbit": 0.0,
        "wait": 0.0,
    }
    given = ("--bind", "tcp://*:6000", "--insecure", "--name", "hub", "--mbit", 500, "--wait", 3, "--nice", 5)
    assert a3cd("relay", "gpu-box:7", *given).exit_code == 0
    assert run.arguments == (LearnerEndpoint(Address("gpu-box", 7), insecure=True),)
    assert run.options == {"bind": Address("*", 6000), "keys": None, "name": "hub", "mbit": 500.0, "wait": 3.0}
    assert niced == [0, 5]


def test_where_other_hosts_reach_it_it_needs_keys_of_its_own(stand: Any, tmp_path: Path) -> None:
    run = stand("relay.daemon.run")
    result = a3cd("relay", "localhost", "--bind", "tcp://*:6000", "--keys", tmp_path)
    assert result.exit_code == 78 and run.arguments == ()
    pair = KeyPair.generate("learner")
    pair.write(tmp_path / LEARNER_PAIR)
    assert a3cd("relay", "localhost", "--bind", "tcp://*:6000", "--keys", tmp_path).exit_code == 0
    assert (run.options["keys"].pair, run.options["keys"].allowed) == (pair, tmp_path / ALLOWED)
    list_ = tmp_path / "site"
    a3cd("relay", "localhost", "--bind", "tcp://*:6000", "--keys", tmp_path, "--allowed", list_)
    assert run.options["keys"].allowed == list_


def test_no_bandwidth_is_none() -> None:
    assert a3cd("relay", "localhost", "--mbit", 0).exit_code == 2
