"""A learner on one host, actors on two others."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import psutil
import pytest

from common.errors import EXIT_SIGTERM
from common.run import presets
from tests.helpers.daemons import Daemon, terminate
from tests.helpers.programs import words_of
from tests.helpers.waiting import until
from tests.hosts import sshd
from tests.hosts.conftest import LEARNER, Site, at_work
from tests.hosts.network import Host

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(300)]
GOAL = 475
OPTIONS = ("--set", f"limits.until_return={GOAL}", "--set", "environment.step_seconds=0.002")


def learner(site: Site, name: str, *options: object) -> Daemon:
    """On the first host, for everyone who reaches it; the run's folder is called `name`."""
    first = site.on[0]
    config = first.config(presets.show("CartPole-v1").text)
    return first.start("learner", "--config", config, "--bind", LEARNER, "--insecure", "--run-dir", name, *options)


def test_actors_on_two_hosts_reach_a_goal_together(site: Site) -> None:
    actors = [daemons.start("actor", LEARNER, "--insecure") for daemons in site.on[1:]]
    head = learner(site, "by-hand", *OPTIONS)
    site.status_when(at_work("h2", "h3"), "both hosts at work")
    status = site.on[2].run("status", LEARNER, "--insecure", "--json", "--timeout", 60).result
    assert {peer["host"]: peer["pid"] for peer in status["actors"]} == {"h2": actors[0].pid, "h3": actors[1].pid}
    assert all(peer["gradients"] for peer in status["actors"])
    assert head.wait() == 0
    assert [actor.wait() for actor in actors] == [0, 0]
    summary = json.loads((site.on[0].folder / "by-hand" / "summary.json").read_text())
    assert (summary["state"], summary["actors_peak"]) == ("reached", 2)
    assert summary["best_return"] >= GOAL


def test_a_launcher_starts_them_by_ssh(site: Site, tmp_path: Path) -> None:
    if why := sshd.lacking():
        pytest.skip(why)
    first, *others = site.hosts
    with sshd.servers(tuple(others), first, tmp_path):
        head = learner(site, "by-ssh", *OPTIONS)
        places = [word for host in others for word in ("--host", f"root@{host.address}:1")]
        launcher = site.on[0].start(
            "launcher", LEARNER, "--insecure", "--name", "fleet", "--start-with", "ssh", *places
        )
        site.status_when(at_work("h2", "h3"), "both hosts at work")
        status = site.on[0].run("status", LEARNER, "--insecure", "--json", "--timeout", 60).result
        assert {peer["host"]: peer["launcher"] for peer in status["actors"]} == {"h2": "fleet", "h3": "fleet"}
        (fleet,) = status["launchers"]
        assert (fleet["host"], fleet["slots"], fleet["running"], fleet["why"]) == ("h1", 2, 2, "")
        for peer in status["actors"]:
            host = site.hosts[int(peer["host"].removeprefix("h")) - 1]
            assert peer["pid"] in {process.pid for process in host.processes()}
        assert head.wait() == 0
        assert launcher.wait() == 0
        for host in others:
            until(
                lambda host=host: not any("actor" in words_of(process) for process in host.processes()),  # type: ignore[misc]
                f"no actor left on {host.name}",
            )


def test_an_actor_ends_with_its_connection_and_is_started_again(site: Site, tmp_path: Path) -> None:
    """There is no systemd on these hosts."""
    if why := sshd.lacking():
        pytest.skip(why)
    first, second, _ = site.hosts

    def running(host: Host, word: str) -> list[psutil.Process]:
        found = []
        for process in host.processes():
            words = words_of(process)
            found += [process] if word in words and words[0] not in ("flock", "sh", "-sh", "bash") else []
        return found

    with sshd.servers((second,), first, tmp_path):
        head = learner(site, "cut", "--set", "limits.until_return=1000.0", "--set", "environment.step_seconds=0.005")
        launcher = site.on[0].start(
            *("launcher", LEARNER, "--insecure", "--name", "fleet", "--start-with", "ssh"),
            *("--host", f"root@{second.address}:1"),
        )
        site.status_when(at_work("h2"), "h2 at work")
        (before,) = running(second, "actor")
        for connection in running(first, "--"):
            connection.kill()
        until(lambda: not before.is_running(), "its end")
        site.status_when(lambda status: at_work("h2")(status) and status.actors[0].pid != before.pid, "another one")
        assert len(running(second, "actor")) == 1
        launcher.signal(signal.SIGKILL)
        launcher.wait()
        until(lambda: not running(second, "actor"), "no actor without its launcher")
        assert terminate(head) == [EXIT_SIGTERM]
