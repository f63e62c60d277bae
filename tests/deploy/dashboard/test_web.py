from __future__ import annotations

import base64
import json
import logging
import socket
import sys
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from urllib.parse import urlencode

import pytest

pytest.importorskip("bokeh")

from deploy.dashboard.door import GUESSES, Door
from deploy.dashboard.watched import Past, WatchedRun
from deploy.dashboard.web import MAX_BODY, MAX_POINTS
from tests.helpers.dashboard import served
from tests.helpers.status import peer_status, run_status

PASSWORD = "open sesame"


class Answer:
    def __init__(self, response: HTTPResponse) -> None:
        self.status, self.headers, self.body = response.status, response.headers, response.read().decode()

    @property
    def cookie(self) -> str:
        return str(self.headers["Set-Cookie"]).partition(";")[0]


class Client:
    def __init__(self, port: int) -> None:
        self.port = port

    def ask(self, path: str, method: str = "GET", body: str | None = None, **headers: str) -> Answer:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, sent)
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def log_in(self, password: str, **headers: str) -> Answer:
        return self.ask("/login", "POST", urlencode({"password": password}), Content_Type=_FORM, **headers)


_FORM = "application/x-www-form-urlencoded"


def runs() -> list[WatchedRun]:
    first, second = (WatchedRun("learner", f"tcp://gpu-box:{port}", 100.0) for port in (5555, 5557))
    past = Past(settings="seed = 7")
    past.read({"seconds": float(second), "frames": second, "mean_return": 1.0} for second in range(3))
    first.took(101.0, run_status(actors=[peer_status()]), past)
    return [first, second]


@pytest.fixture
def client() -> Iterator[Client]:
    """Of a dashboard without a password."""
    with served(runs()) as port:
        yield Client(port)


@pytest.fixture
def guarded() -> Iterator[Client]:
    with served(runs(), Door(PASSWORD)) as port:
        yield Client(port)


def test_the_page_and_what_it_is_made_of(client: Client) -> None:
    page = client.ask("/")
    assert page.status == 200
    assert "<main" in page.body
    for path in ("static/page.js", "static/page.css", "bokeh/bokeh.min.js", "bokeh/bokeh-api.min.js"):
        found = client.ask(f"/{path}")
        assert (found.status, len(found.body) > 500) == (200, True), path
    assert client.ask("/static/page.js", If_None_Match=client.ask("/static/page.js").headers["Etag"]).status == 304


def test_all_runs_and_the_one_that_is_looked_at(client: Client) -> None:
    told = json.loads(client.ask("/api/now?run=0").body)
    assert [run["where"] for run in told["runs"]] == ["tcp://gpu-box:5555", "tcp://gpu-box:5557"]
    assert told["run"]["figures"]["env"] == "FlappyBird-v0"
    assert dict(zip(told["fields"], told["run"]["actors"][0], strict=True))["name"] == "lab-01"
    assert json.loads(client.ask("/api/now?run=1").body)["run"]["figures"] == {}


def test_the_curves_and_a_part_of_them(client: Client) -> None:
    whole = json.loads(client.ask("/api/course?run=0&over=seconds&points=100").body)
    assert whole["samples"]["seconds"] == [0, 1, 2, 724]
    part = json.loads(client.ask("/api/course?run=0&over=frames&from=2&to=3").body)
    assert part["samples"]["frames"] == [1, 2, 1_204_320]


def test_the_settings(client: Client) -> None:
    assert client.ask("/api/settings?run=0").body == "seed = 7"


@pytest.mark.parametrize(
    "path",
    [
        *("/api/now?run=2", "/api/now?run=x", "/api/now?run=-1", "/api/now?run=0&told=1e9", "/api/course?from=x"),
        *(f"/api/course?points={MAX_POINTS + 1}", "/api/settings?run=%00"),
    ],
)
def test_what_cannot_be_meant_is_refused(client: Client, path: str) -> None:
    assert client.ask(path).status == 400


def test_any_axis_and_any_bound_is_answered(client: Client) -> None:
    for query in ("over=nothing", "from=nan", "from=inf&to=-inf", "from=9&to=1", "points=0"):
        assert client.ask(f"/api/course?{query}").status == 200, query


@pytest.mark.parametrize(
    "path", ["/nothing", "/static/../web.py", "/static/%2e%2e%2fweb.py", "/bokeh/x.js", "/static/"]
)
def test_what_is_not_there(client: Client, path: str) -> None:
    assert client.ask(path).status == 404


@pytest.mark.parametrize("path", ["/", "/login", "/api/now", "/static/page.js", "/bokeh/bokeh.min.js", "/nothing"])
@pytest.mark.parametrize("guard", ["none", "password"])
def test_a_page_of_the_internet_whose_name_leads_here_reads_nothing(
    client: Client, guarded: Client, path: str, guard: str
) -> None:
    answer = (client if guard == "none" else guarded).ask(path, Host="evil.example:8265")
    assert answer.status == 403
    assert "does not go by the name 'evil.example:8265'" in answer.body


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors"},
        {"Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "cors"},
    ],
)
def test_another_page_in_the_same_browser_reads_nothing(client: Client, headers: dict[str, str]) -> None:
    for path in ("/", "/api/now"):
        assert client.ask(path, **headers).status == 403


def test_a_link_may_lead_here_and_our_own_page_may_ask(client: Client) -> None:
    assert client.ask("/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate").status == 200
    own = {
        "Origin": f"http://localhost:{client.port}",
        "Host": f"localhost:{client.port}",
        "Sec_Fetch_Site": "same-origin",
    }
    assert client.ask("/api/now", **own).status == 200


def test_no_other_page_may_frame_or_load_it(client: Client) -> None:
    for path in ("/", "/api/now", "/static/page.js"):
        headers = client.ask(path).headers
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert "Access-Control-Allow-Origin" not in headers


def test_without_the_password_there_is_only_the_login(guarded: Client) -> None:
    assert guarded.ask("/").headers["Location"] == "login"
    for path in ("/api/now", "/api/course", "/api/settings", "/nothing"):
        answer = guarded.ask(path)
        assert (answer.status, answer.body) == (401, "log in first\n"), path
    assert "password" in guarded.ask("/login").body


def test_the_password_lets_in_and_logging_out_shuts(guarded: Client) -> None:
    wrong = guarded.log_in("guess")
    assert (wrong.status, "This is not the password" in wrong.body) == (403, True)
    right = guarded.log_in(PASSWORD)
    assert (right.status, right.headers["Location"]) == (303, ".")
    assert {"HttpOnly", "SameSite=Strict"} <= {part.strip() for part in right.headers["Set-Cookie"].split(";")}
    assert guarded.ask("/api/now", Cookie=right.cookie).status == 200
    assert guarded.ask("/api/now", Cookie=f"{right.cookie}x").status == 401
    assert guarded.ask("/logout", "POST", Cookie=right.cookie).status == 303
    assert guarded.ask("/api/now", Cookie=right.cookie).status == 401


def test_dashboards_at_two_ports_of_a_host_do_not_log_each_other_out(guarded: Client) -> None:
    """Browsers send all cookies of a host to each of its ports; an ssh tunnel gives this one another port."""
    direct, tunnelled = guarded.log_in(PASSWORD), guarded.log_in(PASSWORD, Host="localhost:8080")
    both = f"{direct.cookie}; {tunnelled.cookie}"
    assert guarded.ask("/api/now", Cookie=both).status == 200
    assert guarded.ask("/logout", "POST", Cookie=both, Host="localhost:8080").status == 303
    assert guarded.ask("/api/now", Cookie=both).status == 200
    assert guarded.ask("/api/now", Cookie=both, Host="localhost:8080").status == 401


def test_a_program_gives_the_password_itself_and_guesses_as_slowly(guarded: Client) -> None:
    def basic(password: str) -> str:
        return f"Basic {base64.b64encode(f'me:{password}'.encode()).decode()}"

    assert guarded.ask("/api/now", Authorization=basic(PASSWORD)).status == 200
    for _ in range(GUESSES):
        assert guarded.ask("/api/now", Authorization=basic("guess")).status == 401
    assert guarded.ask("/api/now", Authorization=basic(PASSWORD)).status == 401
    late = guarded.log_in(PASSWORD)
    assert (late.status, late.headers["Retry-After"] is not None) == (429, True)


@pytest.mark.parametrize("header", ["Basic", "Basic !", "Bearer x", "Basic //8=", ""])
def test_a_header_that_is_no_password(guarded: Client, header: str) -> None:
    assert guarded.ask("/api/now", Authorization=header).status == 401


def test_another_page_cannot_log_in(guarded: Client) -> None:
    assert guarded.log_in(PASSWORD, Origin="http://evil.example").status == 403


def test_a_request_that_is_long_is_refused(guarded: Client) -> None:
    """By its length, before it comes: what is sent after that is not read, and the connection may be reset for it."""
    assert guarded.ask("/login", "POST", Content_Type=_FORM, Content_Length=str(MAX_BODY + 1)).status == 400


def test_what_is_no_request_leaves_no_line(guarded: Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    for nonsense in (b"no request\r\n\r\n", b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", guarded.port), timeout=30) as one:
            one.sendall(nonsense)
            while one.recv(4096):
                pass
    assert [record.name for record in caplog.records if record.name.startswith("tornado")] == []


def test_metrics_of_the_runs_that_answer(client: Client) -> None:
    pytest.importorskip("prometheus_client")
    answer = client.ask("/metrics")
    assert (answer.status, answer.headers["Content-Type"].partition(";")[0]) == (200, "text/plain")
    assert 'a3cd_mean_return{run="9649236e67ffe1b7"} 87.3' in answer.body


def test_metrics_without_their_extra(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    answer = client.ask("/metrics")
    assert (answer.status, "pip install 'a3cd[prometheus]'" in answer.body) == (501, True)


def test_metrics_want_the_password_too(guarded: Client) -> None:
    assert guarded.ask("/metrics").status == 401
