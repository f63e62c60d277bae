from __future__ import annotations

from typing import Any

from tests.helpers.command_line import a3cd


def test_exchange(stand: Any) -> None:
    run = stand("deploy.cli.exchange_bench.exchange", 3)
    assert a3cd("bench", "exchange", "CartPole-v1", "--actors", 2, "--algorithm", "ppo", "--json").exit_code == 3
    assert run.arguments == ("CartPole-v1",)
    chosen = {"actors": (2, 2), "algorithm": "ppo", "network": None, "assignments": ()}
    assert run.options == {"seconds": 20.0, "also_actions": False, "as_json": True, **chosen}
    assert a3cd("bench", "exchange", "CartPole-v1", "--seconds", 1).exit_code == 2
