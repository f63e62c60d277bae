from __future__ import annotations

import contextlib
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import HTTPConnection
from http.server import ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path

import pytest

from common.errors import ConfigurationError, UnavailableError
from common.host.addresses import Address
from common.run import prometheus
from common.settings.sections import Settings
from learner import daemon
from tests.helpers.daemons import free_address
from tests.helpers.status import run_status

pytest.importorskip("prometheus_client", reason="needs the extra prometheus")
from learner import exporter
from learner.exporter import Exporter

pytestmark = pytest.mark.usefixtures("nothing_left_behind")
HERE = Address("127.0.0.1", 0)
PATIENCE = 30.0


@pytest.fixture
def serving(monkeypatch: pytest.MonkeyPatch) -> Iterator[Exporter]:
    monkeypatch.setattr(exporter, "APART_SECONDS", 0.0)
    monkeypatch.setattr(exporter, "LOOK_SECONDS", 0.02)
    with Exporter(HERE) as one:
        one.start()
        yield one


def scrape(one: Exporter) -> str:
    with urllib.request.urlopen(one.url, timeout=PATIENCE) as answer:
        text: str = answer.read().decode()
    return text


def connect(one: Exporter) -> socket.socket:
    return socket.create_connection(one.url.split("/")[2].split(":"), timeout=PATIENCE)


def ended(connection: socket.socket) -> bytes:
    """What came before the other end closed it."""
    got = b""
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(4096):
            got += part
    return got


def test_the_newest_status_is_told(serving: Exporter) -> None:
    assert "a3cd_" not in scrape(serving)
    assert "process_resident_memory_bytes" in scrape(serving)
    for frames in (7, 9):
        serving.show(run_status(frames=frames))
        assert f'a3cd_frames_total{{epoch="1",run="9649236e67ffe1b7"}} {frames}.0\n' in scrape(serving)


def test_other_paths_name_the_right_one(serving: Exporter) -> None:
    with pytest.raises(urllib.error.HTTPError) as raised:
        urllib.request.urlopen(serving.url + "s", timeout=PATIENCE)
    with raised.value as answer:
        assert (answer.code, answer.read()) == (404, b"the metrics are at /metrics\n")


def answer_to(one: Exporter, host: str | None) -> tuple[int, str]:
    """Status and body of the answer to a scrape with this Host header."""
    with contextlib.closing(HTTPConnection(*one.url.split("/")[2].split(":"), timeout=PATIENCE)) as connection:
        connection.putrequest("GET", "/metrics", skip_host=True)
        if host is not None:
            connection.putheader("Host", host)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


@pytest.mark.parametrize("host", ["evil.example:9464", "evil.example", "localhost.evil.example", "192.0.2.7:9464", ""])
def test_a_page_of_the_internet_whose_name_leads_here_reads_nothing(serving: Exporter, host: str) -> None:
    serving.show(run_status())
    status, text = answer_to(serving, host)
    assert (status, "a3cd_" in text, "process_" in text) == (403, False, False)
    assert "under this machine's own names only" in text


@pytest.mark.parametrize("host", ["127.0.0.1:9464", "localhost:9464", "LOCALHOST", "[::1]:9464", "own", None])
def test_a_scrape_that_names_this_machine_is_answered_as_through_a_tunnel(serving: Exporter, host: str | None) -> None:
    status, text = answer_to(serving, socket.gethostname() if host == "own" else host)
    assert (status, "process_" in text) == (200, True)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere 127.0.0.1 is the only such address")
def test_a_scrape_may_name_the_address_that_was_chosen() -> None:
    with Exporter(Address("127.0.0.3", 0)) as one:
        one.start()
        assert answer_to(one, "127.0.0.3:9464")[0] == 200
        assert answer_to(one, "127.0.0.4:9464")[0] == 403


def test_beyond_this_machine_any_name_may_be_its_own() -> None:
    with Exporter(Address("0.0.0.0", 0)) as one:
        one.start()
        assert answer_to(one, "gpu-box.lab.example:9464")[0] == 200


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (b"\0\xff nonsense\r\n\r\n", b"400"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"501"),
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", b"414"),
        (b"GET /metrics HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n", b"431"),
    ],
)
def test_nonsense_is_refused_and_the_next_is_answered(serving: Exporter, asked: bytes, answer: bytes) -> None:
    with connect(serving) as connection:
        with contextlib.suppress(OSError):  # it may have heard enough
            connection.sendall(asked)
        got = ended(connection)
    assert not got or answer in got  # a reset takes the answer along
    assert "process_" in scrape(serving)


def test_who_dawdles_is_cut_off_and_the_next_is_answered(serving: Exporter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter, "LONGEST_SECONDS", 0.05)
    with connect(serving) as silent, connect(serving) as slow:
        with contextlib.suppress(OSError):  # it may be over already
            slow.sendall(b"GET /metrics HTTP/1.1\r\nA: ")
        assert ended(silent) + ended(slow) == b""
    monkeypatch.setattr(exporter, "LONGEST_SECONDS", PATIENCE)
    assert "process_" in scrape(serving)


def test_more_connections_than_there_are_places_are_closed(serving: Exporter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter, "CONNECTIONS", 2)
    with connect(serving) as first, connect(serving) as second, connect(serving) as third:
        assert ended(third) == b""
        for one in (first, second):
            one.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            assert b"200 OK" in ended(one)
    assert "process_" in scrape(serving)


def test_closing_waits_for_nobody(serving: Exporter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter, "LONGEST_SECONDS", 1e6)
    with connect(serving) as connection:
        connection.sendall(b"GET")
        serving.__exit__()
        assert ended(connection) == b""


def test_an_error_of_ours_is_logged_once_and_it_goes_on(
    serving: Exporter, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a bug")

    with monkeypatch.context() as patch:
        patch.setattr(prometheus, "page", fail)
        for _ in range(3):
            with pytest.raises(urllib.error.HTTPError) as raised:
                scrape(serving)
            raised.value.close()
            assert raised.value.code == 500
    assert [record.message for record in caplog.records] == ["the metrics could not be told: ValueError('a bug')"]
    assert "process_" in scrape(serving)


def test_without_descriptors_it_waits_for_some(serving: Exporter, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[float] = []

    def accept(_: object) -> None:
        tries.append(time.monotonic())
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(ThreadingHTTPServer, "get_request", accept, raising=False)
        with connect(serving):
            while len(tries) < 3:
                time.sleep(0.01)
    assert min(later - before for before, later in pairwise(tries)) >= exporter.LOOK_SECONDS
    assert "process_" in scrape(serving)


def test_a_port_in_use_ends_the_learner_before_there_is_a_folder(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        metrics = Address("127.0.0.1", taken.getsockname()[1])
        wrong = f"{metrics} is in use: stop what listens there, or choose another port with --metrics"
        with pytest.raises(UnavailableError, match=wrong):
            daemon.run(
                Settings(), bind=free_address(), keys=None, run_dir=tmp_path / "x", resume=False, metrics=metrics
            )
    assert not (tmp_path / "x").exists()


def test_without_prometheus_client_the_learner_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'a3cd\[prometheus\]'"):
        daemon.run(Settings(), bind=free_address(), keys=None, run_dir=tmp_path / "x", resume=False, metrics=HERE)
    assert not (tmp_path / "x").exists()
