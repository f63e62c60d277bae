"""`a3cd deploy` over a real ssh, with keys: beyond loopback, secrets as systemd's credentials, no launcher."""

from __future__ import annotations

from pathlib import Path

import pytest

from common.host.addresses import Address
from tests.helpers.waiting import until
from tests.systemd.conftest import Deploy
from tests.systemd.machine import Machine
from tests.systemd.service import ACTORS, LEARNER, SETTINGS, Service

pytestmark = [pytest.mark.long, pytest.mark.system, pytest.mark.timeout(600)]
AT = Address("box", 5555)


def test_deployed_repeated_upgraded_and_removed(
    host: Machine, wheels: tuple[Path, ...], deploy: Deploy, tmp_path: Path
) -> None:
    service = Service(host, wheels, AT)
    (tmp_path / "run.toml").write_bytes(SETTINGS)
    learner = ("learner", "--config", tmp_path / "run.toml", "--name", "cartpole")
    actors = ("actors", "--learner", AT, "--invite-from", "root@box")
    assert deploy(*learner, "--dry-run")[0] == "root@box: learner: would change"
    assert "  key pair /etc/a3cd/keys/learner.key" in deploy(*learner)
    assert "  credential box_5555.credential" in deploy(*actors)
    status = service.training()
    assert sorted(peer.name for peer in status.actors if peer.pid in service.actors()) == ["box/box-0", "box/box-1"]
    assert host.run("stat", "-c", "%a %U", "/etc/a3cd/keys/learner.key").split() == ["600", "root"]

    before = [service.pid(unit) for unit in (LEARNER, *ACTORS)]
    assert deploy(*learner) == ["root@box: learner: nothing to do"]
    assert deploy(*actors) == ["root@box: actors: nothing to do"]
    assert [service.pid(unit) for unit in (LEARNER, *ACTORS)] == before
    assert any(ACTORS[0] in line and "running" in line for line in deploy("status"))

    (tmp_path / "wrong.toml").write_bytes(SETTINGS.replace(b"CartPole-v1", b"NotHere-v0"))
    wrong = deploy("learner", "--config", tmp_path / "wrong.toml", "--name", "cartpole", code=78)
    assert "refused, and nothing was stopped" in wrong[-1]
    assert "environment.id is 'CartPole-v1', not 'NotHere-v0'" in wrong[-1]
    assert service.pid(LEARNER) == before[0]

    host.run("systemctl", "stop", ACTORS[1])
    assert deploy("upgrade")[-1] == "  restart of what runs"
    assert deploy("upgrade") == ["root@box: upgrade: nothing to do"]
    service.restarted(LEARNER, before[0])
    assert service.pid(ACTORS[1]) == 0, "what did not run is left so"
    host.run("systemctl", "start", ACTORS[1])
    assert service.training().epoch == status.epoch + 1

    assert deploy(*actors, "--slots", "1")[-1] == "  no actor beyond 1"
    assert service.pid(ACTORS[1]) == 0
    assert service.pid(ACTORS[0])
    assert deploy(*actors, "--slots", "1")[-1].endswith("nothing to do")
    deploy(*actors)

    host.run("/opt/a3cd/bin/a3cd", "keys", "revoke", "box")
    for unit in ACTORS:  # cut off: it waits, says why, and is not started again and again
        until(lambda unit=unit: "kept out: " in host.show(unit, "StatusText")["StatusText"], f"{unit} is cut off")  # type: ignore[misc]
        assert host.show(unit, "ActiveState", "NRestarts") == {"ActiveState": "active", "NRestarts": "0"}
    assert service.pid(LEARNER)
    assert "does not let the key of box in" in deploy(*actors, code=78)[-1]

    assert deploy("remove")[-1] == "  kept: /var/lib/a3cd (runs) and /etc/a3cd (settings, keys)"
    assert deploy("remove") == ["root@box: remove: nothing to do"]
    assert host.run("systemctl", "list-units", "--plain", "--no-legend", "a3cd*") == ""
    assert "a3cd" not in host.run("systemctl", "list-unit-files", "--no-legend")
    kept = host.run("ls", "/etc/a3cd/keys", "/etc/a3cd/runs", "/var/lib/a3cd/cartpole")
    assert {"learner.key", "cartpole.toml", "run.json"} <= set(kept.split())
