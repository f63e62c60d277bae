from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq
from zmq.utils import z85

from common.errors import ConfigurationError
from common.host.addresses import Address
from common.host.security import allowed
from common.host.security.access import LEARNER_PAIR, LearnerEndpoint
from common.host.security.credential import Credential
from common.host.security.keys import KeyPair
from common.wire import sockets
from learner.authentication import CHECK_SECONDS, LINES_AT_ONCE, Authenticator, LearnerKeys, answer

Context = zmq.Context[zmq.Socket[bytes]]
HERE, ANYWHERE = Address("127.0.0.1", 0), Address("0.0.0.0", 5555)
PATIENCE_MS = 10_000
OWN, PEER, STRANGER = KeyPair.generate("learner"), KeyPair.generate("lab7"), KeyPair.generate("stranger")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    OWN.write(tmp_path / LEARNER_PAIR)
    allowed.allow(tmp_path / "allowed", PEER.public, PEER.name)
    return tmp_path


def test_no_keys_are_needed_on_this_machine(tmp_path: Path) -> None:
    assert LearnerKeys.find(HERE, keys=None, allowed=None, insecure=False) is None
    assert LearnerKeys.find(ANYWHERE, keys=None, allowed=None, insecure=True) is None


def test_keys_and_none_at_once_are_refused(folder: Path) -> None:
    for keys, list_ in ((folder, None), (None, folder / "allowed")):
        with pytest.raises(ConfigurationError, match="--insecure is without keys"):
            LearnerKeys.find(ANYWHERE, keys=keys, allowed=list_, insecure=True)


def test_beyond_it_they_are(folder: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    with pytest.raises(ConfigurationError, match=r"can be reached from other hosts.* new learner`.*--insecure"):
        LearnerKeys.find(ANYWHERE, keys=empty, allowed=None, insecure=False)
    with pytest.raises(ConfigurationError, match=f"there is no .*: `a3cd keys --keys {empty} new learner`"):
        LearnerKeys.find(HERE, keys=empty, allowed=None, insecure=False)
    assert LearnerKeys.find(ANYWHERE, keys=folder, allowed=None, insecure=False) == LearnerKeys(OWN, folder / "allowed")
    other = tmp_path / "who"
    assert LearnerKeys.find(HERE, keys=folder, allowed=other, insecure=False) == LearnerKeys(OWN, other)


def request(mechanism: bytes, *credentials: bytes) -> list[bytes]:
    return [b"1.0", b"7", b"a3cd", b"10.0.0.7", b"", mechanism, *credentials]


def test_answers() -> None:
    names = {PEER.public: "lab7"}
    reply, refused = answer(request(b"CURVE", z85.decode(PEER.public)), names)
    assert (reply, refused) == ([b"1.0", b"7", b"200", b"OK", b"lab7", b""], "")
    reply, refused = answer(request(b"CURVE", z85.decode(STRANGER.public)), names)
    assert (reply[:3], refused) == ([b"1.0", b"7", b"400"], STRANGER.public)
    for other in (request(b"NULL"), request(b"CURVE"), request(b"PLAIN", b"lab7", b"word")):
        reply, refused = answer(other, names)
        assert (reply[2], reply[4], refused) == (b"400", b"", "none")


class House:
    """A guarded ROUTER and those who knock."""

    def __init__(self, context: Context, keys: LearnerKeys) -> None:
        self.context = context
        self.authenticator = Authenticator(context, keys, repeat_seconds=3600)
        listener = sockets.reserve(HERE)
        self.address = Address("127.0.0.1", listener.getsockname()[1])
        self.router = sockets.router(context, 2**20)
        self.authenticator.guard(self.router)
        sockets.bind(self.router, listener)
        self.guests: list[zmq.Socket[bytes]] = []

    def guest(self, pair: KeyPair | None, learner: str = OWN.public) -> zmq.Socket[bytes]:
        credential = Credential(self.address, learner, pair) if pair else None
        access = LearnerEndpoint(self.address, credential)
        events = zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
        events |= zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_SUCCEEDED
        guest = sockets.dealer(self.context, str(access.address), 2**20, credential, monitored=events)
        self.guests.append(guest)
        return guest

    def attend(self, *others: zmq.Socket[bytes]) -> set[zmq.Socket[bytes]]:
        """Answers whoever knocks until one of `others` or the router has something to read."""
        poller = zmq.Poller()
        for one in (self.authenticator.socket, self.router, *others):
            poller.register(one, zmq.POLLIN)
        while ready := {one for one, _ in poller.poll(PATIENCE_MS)}:
            self.authenticator.serve(0.0)
            if ready - {self.authenticator.socket}:
                return ready - {self.authenticator.socket}
        raise AssertionError("nobody said anything")

    def close(self) -> None:
        for guest in self.guests:
            monitor = guest.get_monitor_socket()
            guest.disable_monitor()
            monitor.close(linger=0)
            guest.close(linger=0)
        self.router.close(linger=0)
        self.authenticator.close()


@pytest.fixture
def house(folder: Path) -> Iterator[House]:
    context: Context = zmq.Context()
    one = House(context, LearnerKeys(OWN, folder / "allowed"))
    yield one
    one.close()
    context.term()


@pytest.mark.parametrize("pair", [PEER, OWN], ids=["a peer's", "the learner's own"])
def test_those_allowed_come_in_under_their_keys_name(house: House, pair: KeyPair) -> None:
    guest = house.guest(pair)
    while not guest.poll(10, zmq.POLLOUT):
        house.authenticator.serve(0.0)
    guest.send(b"hello")
    assert house.attend() == {house.router}
    frames = house.router.recv_multipart(copy=False)
    assert (frames[-1].bytes, frames[-1].get("User-Id")) == (b"hello", pair.name)


@pytest.mark.parametrize(
    ("pair", "learner", "said"),
    [
        (STRANGER, OWN.public, f"the key {STRANGER.public}, shown from 127.0.0.1, is not allowed here"),
        (PEER, STRANGER.public, ""),
        (None, "", ""),
    ],
    ids=["a key not in the list", "another learner's key", "no key"],
)
def test_others_do_not_and_it_is_said_once(
    house: House, pair: KeyPair | None, learner: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        guest = house.guest(pair, learner)
        assert house.attend(guest.get_monitor_socket()) == {guest.get_monitor_socket()}
        house.authenticator.serve(0.0)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == [said] * bool(
        said
    )
    assert not house.router.poll(50)


def test_strangers_from_many_addresses_fill_no_log(house: House, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for number in range(1000):
            house.authenticator._warn(
                f"key from 10.0.{number}", f"the key shown from 10.0.{number} is not allowed here"
            )
    assert len(caplog.records) <= LINES_AT_ONCE + 5


def test_a_connection_that_closes_without_a_word_is_not_told(house: House, caplog: pytest.LogCaptureFixture) -> None:
    """As of a probe that asks only whether the port is open."""
    for said in (b"", b"\xff"):
        with socket.create_connection((house.address.host, house.address.port)) as probe:
            probe.sendall(said)
            probe.recv(1)  # it was accepted
    guest = house.guest(STRANGER)
    monitor = guest.get_monitor_socket()
    while not monitor.poll(10):
        house.authenticator.serve(0.0)
    assert [record.message.partition(", shown")[0] for record in caplog.records] == [f"the key {STRANGER.public}"]


def test_who_is_not_allowed_any_more(house: House, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert house.authenticator.revoked(0.0) == set()
    allowed.allow(folder / "allowed", STRANGER.public, "new")
    assert house.authenticator.revoked(CHECK_SECONDS) == set()
    allowed.revoke(folder / "allowed", "lab7")
    assert house.authenticator.revoked(1.5 * CHECK_SECONDS) == set()  # it does not look that often
    assert house.authenticator.revoked(2 * CHECK_SECONDS) == {"lab7"}
    assert house.authenticator.revoked(3 * CHECK_SECONDS) == set()
    (folder / "allowed").write_text("nonsense")
    assert house.authenticator.revoked(4 * CHECK_SECONDS) == set()
    assert house.authenticator.problem in caplog.text
    assert caplog.text.count("the list as it was stays in force") == 1


def test_a_key_that_loses_a_role_is_disconnected(house: House, folder: Path) -> None:
    house.authenticator.revoked(0.0)
    assert house.authenticator.roles == {"learner": allowed.ROLES, "lab7": allowed.USUAL_ROLES}
    allowed.allow(folder / "allowed", PEER.public, PEER.name, ["observer"])
    assert house.authenticator.revoked(CHECK_SECONDS) == {"lab7"}
    assert house.authenticator.roles["lab7"] == ("observer",)


def test_a_key_that_gets_another_role_stays_connected(house: House, folder: Path) -> None:
    house.authenticator.revoked(0.0)
    allowed.allow(folder / "allowed", PEER.public, PEER.name, [*allowed.USUAL_ROLES, "operator"])
    assert house.authenticator.revoked(CHECK_SECONDS) == set()
    assert "operator" in house.authenticator.roles["lab7"]


def test_who_is_revoked_does_not_become_the_learner_itself_by_its_name(house: House, folder: Path) -> None:
    house.authenticator.revoked(0.0)
    (folder / "allowed").write_text(f"{STRANGER.public} {OWN.name} actor\n")
    assert house.authenticator.revoked(CHECK_SECONDS) == {"lab7"}
    assert house.authenticator.roles == {OWN.name: ("actor",)}
    (folder / "allowed").write_text("")
    house.guest(PEER)  # for whom the list does not have, it is read again before its time
    while house.authenticator.roles:
        house.authenticator.serve(0.0)
    assert house.authenticator.revoked(2 * CHECK_SECONDS) == {OWN.name}
    assert house.authenticator.roles == {OWN.name: allowed.ROLES}


def test_whoever_was_let_in_a_moment_ago_comes_in(house: House, folder: Path) -> None:
    house.authenticator.revoked(0.0)
    allowed.allow(folder / "allowed", STRANGER.public, "new")
    allowed.revoke(folder / "allowed", "lab7")
    guest = house.guest(STRANGER)
    while not guest.poll(10, zmq.POLLOUT):
        house.authenticator.serve(0.0)
    assert house.authenticator.revoked(CHECK_SECONDS) == {"lab7"}, "what was seen at the door is not forgotten"


def test_a_name_with_another_key_is_another_peer(house: House, folder: Path) -> None:
    house.authenticator.revoked(0.0)
    (folder / "allowed").write_text(f"{STRANGER.public} lab7\n")
    assert house.authenticator.revoked(CHECK_SECONDS) == {"lab7"}


@pytest.mark.slow
def test_a_banned_key_is_let_in_later(house: House) -> None:
    house.authenticator.ban(PEER.name, 60.0)
    guest = house.guest(PEER)
    monitor = guest.get_monitor_socket()
    while not monitor.poll(10):
        house.authenticator.serve(59.0)
    event = next(sockets.events(monitor))
    assert event == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL, "and not AUTH, which is for good"
    while not guest.poll(10, zmq.POLLOUT):
        house.authenticator.serve(60.0)


def test_the_addresses_of_a_key_are_known(house: House) -> None:
    assert house.authenticator.addresses({PEER.name}) == set()
    guest = house.guest(PEER)
    while not guest.poll(10, zmq.POLLOUT):
        house.authenticator.serve(0.0)
    assert house.authenticator.addresses({PEER.name}) == {"127.0.0.1"}
    assert house.authenticator.addresses({OWN.name}) == set()
