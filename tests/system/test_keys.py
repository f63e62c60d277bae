"""A learner with keys on this machine: those invited play, one that is revoked is cut off, and the rest plays on."""

from __future__ import annotations

import contextlib
import shlex
from pathlib import Path

import pytest
import zmq

from common.errors import EXIT_SIGTERM, RefusedError
from common.host.addresses import Address
from common.host.security.access import find
from common.host.security.credential import Credential
from common.run.status import RunStatus
from common.wire import sockets
from common.wire.frames import pack
from deploy.cli.observer import Observer
from tests.helpers.daemons import Daemons, free_address
from tests.helpers.daemons import daemons as some_daemons
from tests.helpers.run import hello_of
from tests.helpers.waiting import until

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

SETTINGS = """
[environment]
id = "CartPole-v1"
step_seconds = 0.002
[exchange]
weights = "fp32"
"""


def invite(daemons: Daemons, keys: Path, name: str, address: Address) -> str:
    (line,) = daemons.run("keys", "--keys", keys, "invite", name, "--learner", address).printed.splitlines()
    return shlex.split(line)[2]


def test_the_revoked_one_goes_and_the_others_stay(daemons: Daemons) -> None:
    address, keys = free_address(), daemons.folder / "learner"
    daemons.run("keys", "--keys", keys, "new", "learner")
    config = daemons.config(SETTINGS)
    learner = daemons.start(
        *("learner", "--config", config, "--bind", address, "--keys", keys, "--run-dir", daemons.folder / "run")
    )
    actors = {
        name: daemons.start("actor", invite(daemons, keys, name, address), "--keys", daemons.folder / name)
        for name in ("stays", "goes")
    }
    with Observer(find(address, folder=keys), ask_seconds=0.1) as observer:

        def names_when_at_work(wanted: set[str], gradients: int = 0) -> RunStatus | None:
            status = observer.next(1.0)
            if status is None or status.gradients <= gradients or not all(peer.gradients for peer in status.actors):
                return None
            return status if {peer.name.partition("/")[0] for peer in status.actors} == wanted else None

        both = until(lambda: names_when_at_work({"stays", "goes"}), "both at work")
        goes = find(address, folder=daemons.folder / "goes").credential
        assert goes is not None
        daemons.run("keys", "--keys", keys, "revoke", "goes")
        actors["goes"].wait_for("does not let the key of goes in", "; trying again, ever more slowly")
        # Everybody's connection was closed; nothing of the one that stays was lost or counted twice.
        rest = until(lambda: names_when_at_work({"stays"}, both.gradients + 20), "the other to play on")
        assert rest.actors[0].refused == 0
        daemons.run("keys", "--keys", keys, "allow", goes.pair.public, "--name", goes.pair.name)
        until(lambda: names_when_at_work({"stays", "goes"}, rest.gradients), "who was let in again to play on")
    assert actors["stays"].running
    assert actors["goes"].running
    assert "goes/" in learner.said
    assert "was cut off: its key is not allowed any more" in learner.said
    stranger = daemons.run("status", address, "--timeout", 60, code=RefusedError.exit_code)
    assert stranger.errors[-1].endswith("on its host gives one")


def test_no_key_takes_all_connections(tmp_path: Path, context: zmq.Context[zmq.Socket[bytes]]) -> None:
    with some_daemons(tmp_path, ("prlimit", "--nofile=256:256")) as daemons, contextlib.ExitStack() as crowd:
        address, keys = free_address(), daemons.folder / "learner"
        daemons.run("keys", "--keys", keys, "new", "learner")
        learner = daemons.start(
            *("learner", "--config", daemons.config(SETTINGS), "--bind", address, "--keys", keys),
            *("--run-dir", daemons.folder / "run"),
        )
        learner.wait_for("listens on")
        credential = Credential.from_invitation(invite(daemons, keys, "crowd", address))
        for number in range(240):
            one = crowd.enter_context(sockets.dealer(context, str(address), 2**20, credential))
            if one.poll(200, zmq.POLLOUT):
                one.send(pack(hello_of(f"crowd/{number}", "observer")), zmq.NOBLOCK)
        learner.wait_for("leaves room for")
        actors = [
            daemons.start("actor", invite(daemons, keys, name, address), "--keys", daemons.folder / name)
            for name in ("lab1", "lab2")
        ]
        with Observer(find(address, folder=keys), ask_seconds=0.1) as observer:

            def at_work() -> bool:
                status = observer.next(1.0)
                return status is not None and [peer.gradients > 100 for peer in status.actors] == [True, True]

            until(at_work, "both actors at work beside the crowd")
        assert all(actor.running for actor in actors)


def test_a_key_to_look_with_can_do_nothing_else(daemons: Daemons) -> None:
    address, keys, screen = free_address(), daemons.folder / "learner", daemons.folder / "screen"
    daemons.run("keys", "--keys", keys, "new", "learner")
    config = daemons.config(SETTINGS)
    learner = daemons.start(
        *("learner", "--config", config, "--bind", address, "--keys", keys, "--run-dir", daemons.folder / "run")
    )
    learner.wait_for("listens on")
    words = ("keys", "--keys", keys, "invite", "screen", "--learner", address, "--role", "observer")
    (line,) = daemons.run(*words).printed.splitlines()
    _, command, invitation = shlex.split(line)
    status = daemons.run(command, invitation, "--keys", screen, "--json", "--timeout", 60)
    assert status.result["state"] == "running"
    player = daemons.start("actor", address, "--keys", screen, "--name", "player")
    player.wait_for("the key of screen may be observer, not actor")
    status = daemons.run("status", address, "--keys", screen, "--json", "--timeout", 60)
    assert status.result["actors_now"] == 0
    assert learner.running


def test_a_run_is_led_from_afar_by_who_has_an_operators_key_and_by_nobody_else(daemons: Daemons) -> None:
    address, keys, boss, run_dir = (
        free_address(),
        daemons.folder / "learner",
        daemons.folder / "boss",
        daemons.folder / "led",
    )
    daemons.run("keys", "--keys", keys, "new", "learner")
    begin = ("learner", "--config", daemons.config(SETTINGS), "--bind", address, "--keys", keys, "--run-dir", run_dir)
    learner = daemons.start(*begin)
    (line,) = daemons.run(
        *("keys", "--keys", keys, "invite", "boss", "--learner", address, "--role", "operator")
    ).printed.splitlines()
    assert shlex.split(line)[:3] == ["a3cd", "keys", "accept"]
    daemons.run("keys", "--keys", boss, "accept", shlex.split(line)[3])
    launcher = daemons.start(
        *("launcher", invite(daemons, keys, "lab", address), "--keys", daemons.folder / "lab", "--slots", 2)
    )
    learner.wait_for("launcher lab/")
    for order in (("stop",), ("checkpoint",), ("scale", 1)):
        command, *rest = order
        words = (command, address, *rest, "--keys", daemons.folder / "lab", "--timeout", 60)
        refused = daemons.run(*words, code=RefusedError.exit_code)
        assert "the key of lab is no operator's" in refused.errors[-1]
    scaled = daemons.run("scale", address, 1, "--keys", boss, "--json", "--timeout", 60).result
    assert (scaled["minimum"], scaled["wanted"], scaled["room"]) == (1, 1, 2)
    launcher.wait_for("orders actors=1")
    saved = daemons.run("checkpoint", address, "--keys", boss, "--json", "--timeout", 60).result
    assert Path(saved["checkpoint"]).is_relative_to(run_dir) and int(Path(saved["checkpoint"]).name[:10]) >= 0
    stopped = daemons.run("stop", address, "--keys", boss, "--json", "--timeout", 60).result
    assert (Path(stopped["checkpoint"]) / "weights.safetensors").exists()
    assert learner.wait() == EXIT_SIGTERM
    assert "stopped: stopped by operator boss/" in learner.said
    again = daemons.start(*begin, "--resume")
    again.wait_for("listens on")
    status = daemons.run("status", address, "--keys", keys, "--json", "--timeout", 60).result
    assert (status["epoch"], status["actors_wanted"]) == (2, 1)
    assert status["why"].startswith("as operator boss/")
    assert daemons.run("stop", address, "--keys", keys, "--timeout", 60).printed.startswith(
        "stopped; checkpoint of version "
    )
    assert (again.wait(), launcher.running) == (EXIT_SIGTERM, True)


def test_a_module_is_imported_only_where_its_actor_may(daemons: Daemons) -> None:
    address = free_address()
    config = daemons.config('[environment]\nid = "broken_environments:RaisesMidEpisode-v0"')
    daemons.start("learner", "--config", config, "--bind", address, "--run-dir", daemons.folder / "modules")
    refused = daemons.run("actor", address, code=78)
    assert "--allow-module broken_environments" in refused.errors[-1]
