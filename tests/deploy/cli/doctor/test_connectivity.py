from collections.abc import Callable
from typing import Any

import pytest

from common.host.addresses import Address
from common.host.security.access import LearnerEndpoint
from common.host.security.credential import Credential
from common.host.security.keys import KeyPair
from common.wire import sockets
from common.wire.messages import PROTOCOL, Goodbye, Refused
from deploy.cli.doctor import connectivity
from deploy.cli.doctor.connectivity import answer, clock, key, likeness, look, name, playable, port
from tests.helpers.waiting import until

pytestmark = pytest.mark.usefixtures("nothing_left_behind")


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connectivity, "CONNECT_SECONDS", 30.0)
    monkeypatch.setattr(connectivity, "ANSWER_SECONDS", 30.0)


def test_a_learner_that_answers(start_learner: Callable[..., Any]) -> None:
    learner = start_learner()
    finding = answer(learner.access)[0]
    run = learner.report["run"]
    assert (finding.state, finding.text) == ("ok", f"answers: run {run}, protocol {PROTOCOL}, takes peers without keys")
    until(lambda: isinstance(learner.heard[-1], Goodbye), "a goodbye")


def test_a_learner_of_another_protocol(start_learner: Callable[..., Any]) -> None:
    learner = start_learner()
    learner.refusal = Refused(code="protocol", reason="protocol 1 is not 2")
    (finding,) = answer(learner.access)
    assert (finding.state, finding.text) == ("bad", "the learner refused this observer: protocol 1 is not 2")


def test_what_listens_but_is_no_learner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connectivity, "ANSWER_SECONDS", 0.1)
    with sockets.reserve(Address("127.0.0.1", 0)) as listener:
        (finding,) = answer(LearnerEndpoint(Address("127.0.0.1", listener.getsockname()[1])))
    assert finding.state == "bad"
    assert "no learner answered within 0.1 s" in finding.text


def test_the_way_is_looked_at_step_by_step(start_learner: Callable[..., Any]) -> None:
    pair = sockets.reserve_pair(Address("127.0.0.1", 0))
    at = pair[0].getsockname()[1]
    pair[0].close()
    learner = start_learner(port=at)
    states = {finding.name: finding.state for finding in look(learner.access)}
    assert states == {
        "learner's name": "ok",
        "learner's port": "ok",
        "weights port": "ok",
        "learner": "ok",
        "clock": "warn",
        "versions": "ok",
        "environment": "ok",
    }
    pair[1].close()
    states = {finding.name: finding.state for finding in look(learner.access)}
    assert states == {"learner's name": "ok", "learner's port": "ok", "weights port": "bad"}


def test_a_port_where_nothing_listens() -> None:
    with sockets.reserve(Address("127.0.0.1", 0)) as listener:
        at = listener.getsockname()[1]
    finding = port(Address("127.0.0.1", at))
    assert (finding.state, finding.text) == ("bad", f"tcp://127.0.0.1:{at}: Connection refused")
    assert "--bind" in finding.mend


def test_a_port_behind_a_wall(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(*_: Any) -> Any:
        raise TimeoutError

    monkeypatch.setattr(connectivity.socket, "create_connection", silent)
    finding = port(Address("10.0.0.1", 5555))
    assert (finding.state, finding.text) == ("bad", "tcp://10.0.0.1:5555: no answer")
    assert "firewalls" in finding.mend


def test_a_name_nobody_knows_ends_the_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: Any, **__: Any) -> Any:
        raise connectivity.socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(connectivity.socket, "getaddrinfo", unknown)
    findings = look(LearnerEndpoint(Address("no.such.host", 5555)))
    assert [(finding.state, finding.text) for finding in findings] == [
        ("bad", "no.such.host: Name or service not known")
    ]


@pytest.mark.parametrize("host", ["gpu..box", "g" * 64])
def test_a_name_that_no_host_can_have(host: str) -> None:
    (finding,) = look(LearnerEndpoint(Address(host, 5555)))
    assert (finding.state, finding.text) == ("bad", f"{host}: no name of a host")


def test_addresses_of_a_name_are_named_once() -> None:
    assert name(Address("127.0.0.1", 5555)).text == "127.0.0.1 is 127.0.0.1"
    assert name(Address("[::1]", 5555)).text == "[::1] is ::1"


def test_the_key_that_is_shown() -> None:
    there = Address("gpu-box", 5555)
    assert key(LearnerEndpoint(there)) == "takes peers without keys"
    credential = Credential(there, KeyPair.generate("learner").public, KeyPair.generate("lab7"))
    assert key(LearnerEndpoint(there, credential)) == "lets the key of lab7 in"


@pytest.mark.parametrize(
    ("there", "state", "text"),
    [
        (1000.0, "ok", "this host's is 0.0 s behind the learner's"),
        (940.0, "warn", "this host's is 60.0 s ahead of the learner's"),
        (1003.5, "warn", "this host's is 3.5 s behind the learner's"),
    ],
)
def test_clocks(there: float, state: str, text: str) -> None:
    finding = clock(there, 1000.0)
    assert (finding.state, finding.text) == (state, text)


def test_versions_may_differ() -> None:
    assert likeness({"torch": "2.13"}, {"torch": "2.13", "numpy": "2"}).text == "the same as the learner's"
    finding = likeness({"torch": "2.13"}, {"torch": "2.4"})
    assert (finding.state, finding.text) == ("ok", "differ, which is all right: torch 2.4 here, 2.13 there")


@pytest.mark.parametrize(
    ("env", "state", "text"),
    [
        ("CartPole-v1", "ok", "CartPole-v1 is here"),
        ("CartPool-v1", "bad", "does not exist; did you mean"),
        ("no_such_module.envs:Car-v0", "bad", "no_such_module.envs:Car-v0 is not here"),
        (".envs:Car-v0", "bad", ".envs:Car-v0 is not here"),
        (":Car-v0", "bad", "environment Car-v0 does not exist"),
        ("antigravity:Car-v0", "ok", "an actor imports it with --allow-module antigravity"),
    ],
)
def test_the_environment(env: str, state: str, text: str) -> None:
    finding = playable(env)
    assert (finding.name, finding.state) == ("environment", state)
    assert text in finding.text


def test_the_module_of_a_network() -> None:
    finding = connectivity.module("network", "no_such_module:Small")
    assert (finding.name, finding.state) == ("network", "bad")
    assert (
        finding.mend == "install the package that has the module no_such_module, or start a3cd in the folder it is in"
    )
    finding = connectivity.module("network", "antigravity:Small")
    assert (finding.state, finding.text) == (
        "ok",
        "antigravity:Small: the module is here, and an actor imports it with --allow-module antigravity",
    )
