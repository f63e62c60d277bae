import pytest

from common.host.load import Load
from common.wire.messages import FleetReport, Heartbeat, SiteReport
from learner.meters import Rate
from learner.peer import ERROR_SECONDS, PREPARING, Peer
from tests.helpers.run import hello_of


def peer_of(name: str, **changed: object) -> Peer:
    return Peer(hello=hello_of(name, **changed), seen=0.0, rate=Rate(5.0, 0.0))


def test_a_heartbeat_changes_what_it_says_and_nothing_else() -> None:
    peer = peer_of("x")
    assert peer.tells(1.0, Heartbeat()) == ""
    assert (peer.state, peer.load, peer.last_error) == (PREPARING, None, "")
    assert peer.tells(1.0, Heartbeat(state="playing", processor=0.5, memory=1, memory_total=2)) == ""
    assert peer.tells(1.0, Heartbeat(last_error="no disk")) == "x: no disk"
    assert (peer.state, peer.load, peer.last_error) == ("playing", Load(0.5, 1, 2), "no disk")


def test_an_error_is_shown_for_a_while_after_it_was_last_told() -> None:
    peer = peer_of("x")
    peer.tells(0.0, Heartbeat(last_error="no disk"))
    peer.tells(5.0, Heartbeat(last_error="no disk"))
    peer.tells(9.0, Heartbeat(state="working"))
    assert peer.status(4.0 + ERROR_SECONDS).last_error == "no disk"
    late = peer.status(5.0 + ERROR_SECONDS)
    assert (late.last_error, late.state) == ("", "working")
    assert peer.relay_status(5.0 + ERROR_SECONDS).last_error == ""
    peer.tells(5.0 + ERROR_SECONDS, Heartbeat(last_error="no disk"))
    assert peer.status(5.0 + ERROR_SECONDS).last_error == "no disk"


def test_lag_is_smoothed_from_the_first_on() -> None:
    peer = peer_of("x")
    peer.smooth_lag(4)
    peer.gradients = 1
    peer.smooth_lag(24)
    assert peer.lag == pytest.approx(5.0)


def test_an_actor_is_shown_with_what_it_said_of_itself() -> None:
    peer = peer_of("x", host="lab", pid=5, launcher="gpu-box", versions={"torch": "2.4"})
    peer.rate.add(1.0, 100)
    status = peer.status(4.0)
    assert (status.name, status.host, status.pid, status.launcher, status.seen) == ("x", "lab", 5, "gpu-box", 4.0)
    assert (status.versions, status.state) == ({"torch": "2.4"}, "preparing")
    assert status.frames_per_second == pytest.approx(25.0, rel=0.1)


def test_a_launcher_is_shown_with_its_slots_before_its_first_report() -> None:
    peer = peer_of("l", role="launcher", slots=8)
    peer.ordered = 3
    status = peer.fleet_status()
    assert (status.slots, status.ordered, status.running, status.gave_up) == (8, 3, 0, False)
    peer.report = FleetReport(slots=7, running=2, starting=1, failed=4, gave_up=True, exit_code=78, why="why")
    status = peer.fleet_status()
    assert (status.slots, status.running, status.starting, status.failed) == (7, 2, 1, 4)
    assert (status.gave_up, status.exit_code, status.why) == (True, 78, "why")


def test_the_status_of_a_relay_is_of_itself_and_of_its_site() -> None:
    relay = peer_of("site", role="relay")
    assert relay.relay_status(1.0).actors == 0
    relay.site = SiteReport(actors=2, stale=5, refused=1, named=[(0, "x", 1.0), (1, "y", 2.0)])
    status = relay.relay_status(1.0)
    assert (status.name, status.actors, status.site_stale, status.site_refused) == ("site", 2, 5, 1)
    assert status.site == {"x": 1.0, "y": 2.0}
