"""A relay between a learner and two actors: killed and started again, and with a learner that comes back."""

from __future__ import annotations

import shlex
import signal
from pathlib import Path

import pytest

from common.errors import EXIT_CONFIGURATION, EXIT_DONE, EXIT_SIGTERM
from common.host.addresses import Address
from common.host.security.access import find
from common.run.status import RunStatus
from deploy.cli.observer import Observer
from tests.helpers.daemons import Daemon, Daemons, free_address, status_when, terminate
from tests.helpers.waiting import until

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

SETTINGS = """
[environment]
id = "CartPole-v1"
step_seconds = 0.002 # a core is left for the tests
[exchange]
expiry_seconds = 8.0
[record]
gradients = true
[checkpoint]
every_seconds = 1.0
"""


def both_play(status: RunStatus) -> bool:
    """As the relay tells, which has told of sums too."""
    return [(one.actors, sorted(one.site)) for one in status.relays] == [(2, ["a", "b"])] and all(
        figure > 0 for one in status.relays for figure in one.site.values()
    )


@pytest.mark.long
def test_a_run_goes_on_whichever_of_them_is_started_again_and_then_all_end(daemons: Daemons) -> None:
    address, site, run_dir = free_address(), free_address(), daemons.folder / "run"
    words = ("--bind", address, "--run-dir", run_dir)
    actors = [daemons.start("actor", site, "--name", name) for name in "ab"]
    learner = daemons.start("learner", "--config", daemons.config(SETTINGS), *words)

    def start_relay() -> Daemon:
        return daemons.start("relay", address, "--bind", site, "--name", "hub")

    relay = start_relay()
    begun = status_when(address, lambda status: both_play(status) and status.version > 20, "two actors at a relay")
    assert (begun.actors_now, begun.actors, begun.refused) == (2, [], 0)

    relay.signal(signal.SIGKILL)
    relay.wait()
    killed = status_when(address, lambda status: True, "the status")
    relay = start_relay()
    again = status_when(
        address,
        lambda status: both_play(status) and status.relays[0].gradients > 20 and status.version > killed.version + 20,
        "both at the next relay",
    )
    assert (again.actors_now, again.refused, again.unknown) == (2, 0, 0)

    assert terminate(learner) == [EXIT_SIGTERM]
    learner = daemons.start("learner", "--resume", *words)
    resumed = status_when(
        address,
        lambda status: both_play(status) and status.version > again.version + 20,
        "both with the learner that came back",
    )
    assert (resumed.epoch, resumed.refused) == (2, 0)
    assert terminate(learner) == [EXIT_SIGTERM]

    limited = daemons.config(f"{SETTINGS}\n[limits]\nframes = {2 * resumed.frames}\n", "limited.toml")
    learner = daemons.start("learner", "--resume", "--config", limited, *words)
    assert [one.wait() for one in (learner, relay, *actors)] == [EXIT_DONE] * 4
    for one in (relay, *actors):
        assert " error: " not in one.said
    replayed = daemons.run("replay", run_dir, "--json").result
    assert replayed["equal"] and replayed["duplicates"] == [], "each sum is in one step"
    assert set(replayed["actors"]) == {"hub"}


def test_keys_let_a_relay_in_and_the_relay_s_own_let_actors_in(daemons: Daemons) -> None:
    address, site = free_address(), free_address()
    own, hub, lab = (daemons.folder / name for name in ("own", "hub", "lab"))
    for folder in (own, hub):
        daemons.run("keys", "--keys", folder, "new", "learner")

    def invite(folder: Path, name: str, where: Address, *roles: str) -> list[str]:
        words = ("keys", "--keys", folder, "invite", name, "--learner", where, *roles)
        return shlex.split(daemons.run(*words).printed)[1:]

    learner = daemons.start(
        *("learner", "--config", daemons.config(SETTINGS), "--bind", address, "--keys", own),
        *("--run-dir", daemons.folder / "run"),
    )
    command, invitation = invite(own, "hub", address, "--role", "relay")
    assert command == "relay"
    relay = daemons.start(command, invitation, "--keys", hub, "--bind", site)
    command, invitation = invite(hub, "lab", site)
    actor = daemons.start(command, invitation, "--keys", lab, "--name", "0")
    with Observer(find(address, folder=own), ask_seconds=0.1) as observer:

        def at_work() -> bool:
            status = observer.next(1.0)
            return (
                status is not None and status.version > 5 and [list(one.site) for one in status.relays] == [["lab/0"]]
            )

        until(at_work, "an actor with a key at a relay with a key")
    stranger = daemons.run("actor", site, "--wait", 60, code=75)  # it may take 50 tries to be sure why
    assert "talks only to peers with a key" in stranger.said
    assert terminate(actor, relay, learner) == [EXIT_SIGTERM] * 3


def test_a_run_whose_actors_send_no_gradients_ends_it(daemons: Daemons) -> None:
    address = free_address()
    learner = daemons.start(
        *("learner", "--config", daemons.config(SETTINGS), "--bind", address, "--run-dir", daemons.folder / "run"),
        *("--set", "algorithm.kind='ppo'", "--set", "record.gradients=false"),
    )
    relay = daemons.run("relay", address, "--bind", free_address(), code=EXIT_CONFIGURATION)
    assert 'exchange.kind = "trajectories"' in relay.errors[-1]
    terminate(learner)
