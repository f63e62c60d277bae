"""A real actor whose gradients are a thousand times too long, beside an honest one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from common.errors import EXIT_SIGTERM, EXIT_TRY_LATER
from common.host.addresses import Address
from common.run.status import RunStatus
from tests.helpers.daemons import daemons, free_address, status_when, terminate
from tests.helpers.waiting import until

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

BAD_ACTOR = Path(__file__).parents[2] / "benchmarks" / "bad_actor.py"
SETTINGS = """
[environment]
id = "CartPole-v1"
step_seconds = 0.002 # a core is left for the tests
[exchange]
kind = "gradients"
[scaling]
minimum = 0
"""


@contextmanager
def bad_actor(address: Address, errors: Path) -> Iterator[subprocess.Popen[bytes]]:
    with errors.open("wb") as file:
        command = [sys.executable, BAD_ACTOR, "1000", "actor", str(address), "--name", "giant"]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd=errors.parent)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_it_is_kept_out_and_waits_when_it_is_started_again_while_the_honest_one_plays_on(tmp_path: Path) -> None:
    address = free_address()
    with daemons(tmp_path) as house:
        learner = house.start(
            *("learner", "--config", house.config(SETTINGS), "--bind", address, "--run-dir", tmp_path / "run")
        )
        honest = house.start("actor", address, "--name", "honest")
        with bad_actor(address, tmp_path / "first.err") as first:
            assert first.wait(120) == EXIT_TRY_LATER
        assert "of norm" in (tmp_path / "first.err").read_text()

        def shown(status: RunStatus) -> bool:
            return [one.name for one in status.quarantined] == ["giant"] and status.version > 0

        status = status_when(address, shown, "the giant kept out and the honest one at work")
        assert status.quarantined[0].place == "address 127.0.0.1"
        assert "max_grad_norm" in status.quarantined[0].why
        with bad_actor(address, tmp_path / "second.err") as second:
            until(lambda: "kept out" in (tmp_path / "second.err").read_text(), "the second one told why it waits")
            version = status.version + 20
            later = status_when(address, lambda status: status.version > version, "the honest one playing on")
            assert second.poll() is None
            assert [actor.name for actor in later.actors] == ["honest"]
            assert later.refused == status.refused
        assert terminate(honest, learner) == [EXIT_SIGTERM, EXIT_SIGTERM]
