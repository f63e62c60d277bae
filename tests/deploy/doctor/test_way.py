from collections.abc import Callable
from typing import Any

import pytest

from common import sockets
from common.addresses import Address
from common.messages import Goodbye, Refused
from deploy.doctor import way
from deploy.doctor.way import answer, look, name, port

pytestmark = pytest.mark.usefixtures("nothing_left_behind")


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(way, "CONNECT_SECONDS", 5.0)


def test_a_learner_that_answers(start_learner: Callable[..., Any]) -> None:
    learner = start_learner()
    finding = answer(learner.address)
    assert (finding.state, finding.text) == ("ok", "answers: run a-run, protocol 1")
    learner.stop()
    assert isinstance(learner.heard[-1], Goodbye)


def test_a_learner_of_another_protocol(start_learner: Callable[..., Any]) -> None:
    learner = start_learner()
    learner.refusal = Refused(code="protocol", reason="protocol 1 is not 2")
    finding = answer(learner.address)
    assert (finding.state, finding.text) == ("bad", "refuses: protocol 1 is not 2")
    assert "same a3cd on both ends" in finding.mend


def test_what_listens_but_is_no_learner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(way, "ANSWER_SECONDS", 0.1)
    with sockets.reserve(Address("127.0.0.1", 0)) as listener:
        finding = answer(Address("127.0.0.1", listener.getsockname()[1]))
    assert finding.state == "bad"
    assert "no learner answered within 0.1 s" in finding.text


def test_the_way_is_looked_at_step_by_step(start_learner: Callable[..., Any]) -> None:
    pair = sockets.reserve_pair(Address("127.0.0.1", 0))
    at = pair[0].getsockname()[1]
    pair[0].close()
    learner = start_learner(port=at)
    states = {finding.name: finding.state for finding in look(learner.address)}
    assert states == {"learner's name": "ok", "learner's port": "ok", "weights port": "ok", "learner": "ok"}
    pair[1].close()
    states = {finding.name: finding.state for finding in look(learner.address)}
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

    monkeypatch.setattr(way.socket, "create_connection", silent)
    finding = port(Address("10.0.0.1", 5555))
    assert (finding.state, finding.text) == ("bad", "tcp://10.0.0.1:5555: no answer")
    assert "firewalls" in finding.mend


def test_a_name_nobody_knows_ends_the_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: Any, **__: Any) -> Any:
        raise way.socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(way.socket, "getaddrinfo", unknown)
    findings = look(Address("no.such.host", 5555))
    assert [(finding.state, finding.text) for finding in findings] == [
        ("bad", "no.such.host: Name or service not known")
    ]


def test_addresses_of_a_name_are_named_once() -> None:
    assert name(Address("127.0.0.1", 5555)).text == "127.0.0.1 is 127.0.0.1"
    assert name(Address("[::1]", 5555)).text == "[::1] is ::1"
