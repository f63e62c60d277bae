"""The units at work under a real systemd, hardened as they are, with torch and ZeroMQ in them.

Each test leaves all of them at work, and asks for nothing that another test may have changed.
"""

from __future__ import annotations

import pytest

from tests.helpers.waiting import until
from tests.systemd.service import ACTORS, LAUNCHER, LEARNER, PYTHON, Service

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]
DAEMONS = ("learner", "launcher", "actor")
EXCHANGE = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
if libc.renameat2(-100, os.fsencode("{}"), -100, os.fsencode("{}"), 2):
    sys.exit(os.strerror(ctypes.get_errno()))
"""
"""Two paths change places (AT_FDCWD, RENAME_EXCHANGE)."""


def test_all_is_up_and_says_what_it_does(service: Service) -> None:
    status = service.training()
    assert sorted(peer.name for peer in status.actors) == ["box-0", "box-1"]
    assert [(fleet.name, fleet.slots, fleet.running) for fleet in status.launchers] == [("box", 2, 2)]
    for unit, text in ((LEARNER, "frames"), (LAUNCHER, "2 of 2 actors"), (ACTORS[0], "playing CartPole-v1 x4")):
        shown = service.host.show(unit, "ActiveState", "StatusText", "Slice")
        assert (shown["ActiveState"], shown["Slice"]) == ("active", "a3cd.slice")
        assert text in shown["StatusText"]
    users = service.host.run("ps", "-o", "user:20=", "-p", ",".join(str(service.pid(u)) for u in (LEARNER, *ACTORS)))
    assert users.split() == ["a3cd", "a3cd-actor", "a3cd-actor"]


def test_what_is_logged_has_priorities_and_fields(service: Service) -> None:
    said = service.host.run("journalctl", "A3CD_RUN=cartpole", "SYSLOG_IDENTIFIER=a3cd-learner", "-o", "json")
    assert '"PRIORITY":"6"' in said
    assert "<6>" not in said
    ours = service.host.run("journalctl", "--no-pager", *(f"SYSLOG_IDENTIFIER=a3cd-{kind}" for kind in DAEMONS))
    for wrong in ("Traceback", "Permission denied"):
        assert wrong not in ours, ours
    warnings = service.host.run("journalctl", "--no-pager", "--priority=warning")
    for wrong in ("Unknown key", "Failed to parse", "audit"):
        assert wrong not in warnings, warnings


def test_deployed_again_nothing_changes(service: Service) -> None:
    before = [service.pid(unit) for unit in (LEARNER, LAUNCHER, *ACTORS)]
    assert service.deploy_learner() == []
    assert service.deploy_launcher() == []
    assert [service.pid(unit) for unit in (LEARNER, LAUNCHER, *ACTORS)] == before


def test_a_killed_actor_is_started_again_and_its_launcher_counts_that(service: Service) -> None:
    before = service.pid(ACTORS[0])
    service.host.run("systemctl", "kill", "--kill-who=main", "--signal=KILL", ACTORS[0])
    service.restarted(ACTORS[0], before)
    service.training(lambda status: [fleet.restarts for fleet in status.launchers] == [{"box-0": 1}])


def test_a_killed_launcher_is_followed_by_one_that_stops_and_doubles_no_actor(service: Service) -> None:
    actors, before = service.actors(), service.pid(LAUNCHER)
    service.host.run("systemctl", "kill", "--kill-who=main", "--signal=KILL", LAUNCHER)
    service.restarted(LAUNCHER, before)
    status = service.training(lambda status: [(fleet.ordered, fleet.running) for fleet in status.launchers] == [(2, 2)])
    assert {peer.pid for peer in status.actors} == service.actors() == actors
    assert len(status.actors) == 2


def test_a_learner_whose_storage_is_away_for_a_while_comes_back(service: Service) -> None:
    """More often than systemd would try by itself; in the test quickly."""
    host, before = service.host, service.training()
    folder = "/run/systemd/system/a3cd-learner@.service.d"
    host.run("sh", "-c", f"mkdir -p {folder} && printf '[Service]\\nRestartSec=100ms\\n' > {folder}/test.conf")
    host.run("systemctl", "daemon-reload")
    host.run("systemctl", "stop", LEARNER)
    host.run("sh", "-c", "mv /var/lib/a3cd /var/lib/away && touch /var/lib/a3cd")
    host.run("systemctl", "start", "--no-block", LEARNER)

    def often() -> bool:
        shown = host.show(LEARNER, "NRestarts", "ActiveState")
        assert shown["ActiveState"] != "failed"
        return int(shown["NRestarts"]) > 12

    until(often, "more than twelve starts in vain")
    # At once: in between, a start would find no folder, make one and begin another run.
    host.run(PYTHON, "-c", EXCHANGE.format("/var/lib/away", "/var/lib/a3cd"))
    host.run("rm", "/var/lib/away", f"{folder}/test.conf")
    host.run("systemctl", "daemon-reload")
    after = service.training(lambda status: status.epoch > before.epoch)
    assert (after.run, after.frames >= before.frames) == (before.run, True)


def test_an_actor_that_hangs_is_started_again(service: Service) -> None:
    folder = "run/systemd/system/a3cd-actor@.service.d"
    host = service.host
    host.run("mkdir", "-p", f"/{folder}")
    host.run("sh", "-c", f"printf '[Service]\\nWatchdogSec=4\\nTimeoutAbortSec=2\\n' > /{folder}/test.conf")
    host.run("systemctl", "daemon-reload")
    before = service.pid(ACTORS[1])
    host.run("systemctl", "restart", ACTORS[1])  # with the short watchdog
    hanging = service.restarted(ACTORS[1], before)
    host.run("kill", "-STOP", hanging)
    service.restarted(ACTORS[1], hanging)
    assert "Watchdog timeout" in host.journal(ACTORS[1])
    host.run("rm", f"/{folder}/test.conf")
    host.run("systemctl", "daemon-reload")
    service.training()


def test_a_learner_that_is_stopped_goes_on_in_the_next_epoch(service: Service) -> None:
    host, before = service.host, service.training()
    actors = service.actors()
    host.run("systemctl", "log-level", "debug")
    host.run("systemctl", "stop", LEARNER)
    assert "(STOPPING=1, STATUS=stopped by a signal)" in host.journal(LEARNER)
    assert "stopped: stopped by a signal" in host.journal(LEARNER)
    shown = host.show(LEARNER, "ActiveState", "Result", "ExecMainStatus")
    assert shown == {"ActiveState": "inactive", "Result": "success", "ExecMainStatus": "143"}
    kept = host.run("sh", "-c", "ls /var/lib/a3cd/cartpole/checkpoints").split()
    assert max(map(int, (name.partition("-")[0] for name in kept))) >= before.version
    until(lambda: "waiting" in host.show(ACTORS[0], "StatusText")["StatusText"], "the actor says that it waits")
    host.run("systemctl", "start", LEARNER)  # returns when it is ready
    assert "(READY=1, STATUS=" in host.journal(LEARNER)
    host.run("systemctl", "log-level", "info")
    after = service.training(lambda status: status.epoch == before.epoch + 1)
    assert after.run == before.run
    assert after.frames >= before.frames
    assert service.actors() == actors


def test_a_restarted_launcher_keeps_its_actors(service: Service) -> None:
    actors = service.actors()
    before = service.pid(LAUNCHER)
    service.host.run("systemctl", "restart", LAUNCHER)
    assert service.restarted(LAUNCHER, before)
    status = service.training(lambda status: [fleet.running for fleet in status.launchers] == [2])
    assert {peer.pid for peer in status.actors} == service.actors() == actors
    units = service.host.run("systemctl", "list-units", "--plain", "--no-legend", "a3cd-actor@*").splitlines()
    assert len(units) == 2


def test_a_wrong_configuration_is_not_tried_again(service: Service) -> None:
    host = service.host
    host.run("sh", "-c", "echo 'nonsense = 1' > /etc/a3cd/runs/wrong.toml")
    host.run("systemctl", "start", "a3cd-learner@wrong", check=False)
    shown = host.show("a3cd-learner@wrong", "ActiveState", "NRestarts", "ExecMainStatus")
    assert shown == {"ActiveState": "failed", "NRestarts": "0", "ExecMainStatus": "78"}
    host.run("systemctl", "reset-failed", "a3cd-learner@wrong")


def test_the_launchers_user_may_start_and_stop_actors_and_nothing_else(service: Service) -> None:
    each = 'systemctl $verb --no-ask-password "$unit" && echo $verb $unit'
    shell = f"for unit; do for verb in start stop; do {each}; done; done"
    service.host.run("systemctl", "stop", LAUNCHER)  # it stops a unit beyond its slots
    said = service.host.run(
        *("runuser", "-u", "a3cd-launcher", "--", "sh", "-c", shell, "sh"),
        *("a3cd-actor@7.service", "a3cd-learner@cartpole.service", "dbus.service", "a3cd-actor@x.service"),
        check=False,
    )
    service.host.run("systemctl", "start", LAUNCHER)
    assert said.splitlines() == ["start a3cd-actor@7.service", "stop a3cd-actor@7.service"]


def test_everything_comes_back_after_a_reboot(service: Service) -> None:
    before = service.training()
    service.host.reboot()
    after = service.training(lambda status: status.epoch > before.epoch)
    assert after.run == before.run
    assert after.frames >= before.frames
    assert sorted(peer.name for peer in after.actors) == ["box-0", "box-1"]
