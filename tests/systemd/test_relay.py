"""A relay as a unit, over a real ssh, with keys on both its sides."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from common.host.addresses import Address
from common.run.status import RunStatus
from deploy.install.payload import SYSTEM
from tests.helpers.waiting import until
from tests.systemd.conftest import Deploy
from tests.systemd.machine import Machine
from tests.systemd.service import SETTINGS, Service

pytestmark = [pytest.mark.long, pytest.mark.system, pytest.mark.timeout(600)]
AT = Address("box", 5555)


def test_actors_behind_a_relay(host: Machine, wheels: tuple[Path, ...], deploy: Deploy, tmp_path: Path) -> None:
    """All on one machine, whose learner and relay have one key pair; each with a pair of its own is in tests/system."""
    service = Service(host, wheels, AT)
    (tmp_path / "run.toml").write_bytes(SETTINGS)
    deploy("learner", "--config", tmp_path / "run.toml", "--name", "cartpole")
    relay = ("relay", "--learner", AT, "--bind", "tcp://0.0.0.0:5565", "--invite-from", "root@box")
    assert "  credential relay-box_5555.credential" in deploy(*relay)
    assert deploy(*relay) == ["root@box: relay: nothing to do"]
    deploy("actors", "--learner", "tcp://box:5565", "--invite-from", "root@box")

    def relayed() -> RunStatus | None:
        said = host.run(SYSTEM.a3cd, "status", AT, "--keys", SYSTEM.keys, "--json", "--timeout", 2, check=False)
        now = msgspec.json.decode(said, type=RunStatus) if said else None
        return now if now is not None and now.frames and [one.actors for one in now.relays] == [2] else None

    status = until(relayed, "two actors that train behind a relay")
    assert [one.name for one in status.relays] == ["box-relay"]
    before = service.pid("a3cd-relay.service")
    host.run("kill", "-KILL", before)
    service.restarted("a3cd-relay.service", before)
    frames = status.frames
    until(lambda: (now := relayed()) is not None and now.frames > frames + 1000, "they train on behind a new one")
