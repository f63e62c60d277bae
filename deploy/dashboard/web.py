"""The page and what it asks for, over HTTP. Every request passes the door first; nothing here changes a run."""

from __future__ import annotations

import base64
import binascii
import logging
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from bokeh.util.paths import server_path
from tornado.httpserver import HTTPServer
from tornado.web import Application, HTTPError, RequestHandler, StaticFileHandler

from common.errors import ConfigurationError
from common.host.host_header import Hosts, port_of
from common.run import prometheus
from deploy.dashboard.door import Door
from deploy.dashboard.watched import ACTOR_FIELDS, WatchedRun

STATIC = Path(__file__).parent / "static"
MAX_BODY = 2**14
"""Most bytes in the body of a request, which is at most a password."""
MAX_POINTS = 2000
PROTECTION = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
}
"""Headers of every answer. BokehJS adds its styles as elements of the page, hence 'unsafe-inline' for styles. Without
any referrer a browser would not send the origin of our own login page either."""


class Guarded(RequestHandler):
    """Answers only requests under a name of this server, from a page of this server, and with the password."""

    open_to_all = False
    """Whether the password is not needed."""

    def initialize(self, hosts: Hosts, door: Door | None, runs: Sequence[WatchedRun]) -> None:
        self.hosts, self.door, self.runs = hosts, door, runs

    def set_default_headers(self) -> None:
        self.clear_header("Server")
        for name, value in PROTECTION.items():
            self.set_header(name, value)
        self.set_header("Cache-Control", "no-store")

    def prepare(self) -> None:
        headers = self.request.headers
        host, origin = headers.get("Host", ""), headers.get("Origin")
        elsewhere = headers.get("Sec-Fetch-Site") in ("cross-site", "same-site") and not self._comes_by_link()
        if not self.hosts.allow(host):
            self.refuse(403, f"this dashboard does not go by the name {host!r}; a3cd dashboard --name gives it another")
        elif elsewhere or (origin is not None and not self.hosts.same(origin, host)):
            self.refuse(403, "another page may not read this one")
        elif not self.open_to_all and not self.admitted():
            self.shut_out()

    def _comes_by_link(self) -> bool:
        """Whether a link on another page leads here; that is allowed, since the other page cannot read the answer."""
        headers = self.request.headers
        return bool(self.request.method == "GET" and headers.get("Sec-Fetch-Mode") == "navigate")

    def admitted(self) -> bool:
        """Whether the request has the cookie of a login or, as programs send it, the password (HTTP basic auth)."""
        if self.door is None:
            return True
        if self.door.known(time.monotonic(), self.get_cookie(self.cookie) or ""):
            return True
        password = _basic(self.request.headers.get("Authorization", ""))
        return password is not None and self.door.knock(time.monotonic(), self.address, password)

    @property
    def cookie(self) -> str:
        """Name of the login's cookie. Browsers send a host's cookies to all its ports, each another dashboard's."""
        return f"a3cd-{port_of(self.request.headers.get('Host', ''))}"

    @property
    def address(self) -> str:
        return str(self.request.remote_ip)

    def shut_out(self) -> None:
        self.refuse(401, "log in first")

    def refuse(self, code: int, text: str) -> None:
        self.set_status(code)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(text + "\n")

    def answer(self, value: object) -> None:
        self.set_header("Content-Type", "application/json")
        self.finish(msgspec.json.encode(value))

    def run(self) -> WatchedRun:
        return self.runs[self.number("run", 0, len(self.runs) - 1)]

    def number(self, name: str, default: int, most: int) -> int:
        text = self.get_query_argument(name, str(default))
        if not (text.isascii() and text.isdigit() and len(text) < 16 and int(text) <= most):
            raise HTTPError(400)
        return int(text)

    def bound(self, name: str) -> float | None:
        text = self.get_query_argument(name, "")
        try:
            return float(text) if text else None
        except ValueError:
            raise HTTPError(400) from None

    def write_error(self, status_code: int, **_: Any) -> None:
        self.finish(f"{status_code} {self._reason}\n")


class Page(Guarded):
    def get(self) -> None:
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.finish((STATIC / "index.html").read_bytes())

    def shut_out(self) -> None:
        self.redirect("login")


class Login(Guarded):
    open_to_all = True

    def get(self) -> None:
        if self.admitted():
            self.redirect(".")
        else:
            self.show("")

    def post(self) -> None:
        door, now = self.door, time.monotonic()
        if door is None:
            self.redirect(".")
        elif (seconds := door.wait(now, self.address)) > 0:
            self.set_status(429)
            self.set_header("Retry-After", str(int(seconds) + 1))
            self.show(f"Too many wrong passwords: try again in {seconds:.0f} s.")
        elif door.knock(now, self.address, self.get_body_argument("password", "", strip=False)):
            self.set_cookie(self.cookie, door.open(now), httponly=True, samesite="Strict", path="/")
            self.redirect(".", status=303)
        else:
            self.set_status(403)
            self.show("This is not the password.")

    def show(self, text: str) -> None:
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.finish((STATIC / "login.html").read_text(encoding="utf-8").replace("<!-- said -->", text))


class Logout(Guarded):
    def post(self) -> None:
        if self.door is not None:
            self.door.close(self.get_cookie(self.cookie) or "")
        self.clear_cookie(self.cookie)
        self.redirect("login", status=303)


class Now(Guarded):
    """The state of all runs in short, and of one of them in full."""

    def get(self) -> None:
        now = time.time()
        told = self.number("told", 0, 10**15)
        self.answer(
            {
                "now": now,
                "password": self.door is not None,
                "runs": [run.summary(number, now) for number, run in enumerate(self.runs)],
                "fields": ACTOR_FIELDS,
                "run": self.run().details(told),
            }
        )


class Course(Guarded):
    """The curves of a run, or of a part of it."""

    def get(self) -> None:
        over = self.get_query_argument("over", "seconds")
        points = max(2, self.number("points", 500, MAX_POINTS))
        changes, samples = self.run().sample(over, self.bound("from"), self.bound("to"), points)
        self.answer({"changes": changes, "samples": samples})


class SettingsFile(Guarded):
    def get(self) -> None:
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(self.run().settings)


class Metrics(Guarded):
    """Metrics of the runs whose learners answer, for Prometheus; a run that is watched twice is in them once."""

    def get(self) -> None:
        newest = {status.run: status for run in self.runs if (status := run.status) is not None}
        try:
            registry = prometheus.registry_of(newest.values)
        except ConfigurationError as error:
            self.refuse(501, str(error))
            return
        content_type, text = prometheus.page(registry, self.request.headers.get("Accept", ""))
        self.set_header("Content-Type", content_type)
        self.finish(text)


class Asset(Guarded, StaticFileHandler):
    """A file of this page or of BokehJS; none of them says anything of a run."""

    open_to_all = True

    def initialize(self, hosts: Hosts, door: Door | None, runs: Sequence[WatchedRun], path: str = "") -> None:
        Guarded.initialize(self, hosts, door, runs)
        StaticFileHandler.initialize(self, path)

    def set_extra_headers(self, _: str) -> None:
        self.set_header("Cache-Control", "no-cache")  # the browser revalidates it, which is cheap


def application(runs: Sequence[WatchedRun], hosts: Hosts, door: Door | None) -> Application:
    common = {"hosts": hosts, "door": door, "runs": runs}
    bokeh = str(server_path() / "static" / "js")
    return Application(
        [
            (r"/", Page, common),
            (r"/login", Login, common),
            (r"/logout", Logout, common),
            (r"/api/now", Now, common),
            (r"/api/course", Course, common),
            (r"/api/settings", SettingsFile, common),
            (r"/metrics", Metrics, common),
            (r"/static/([\w.]+)", Asset, common | {"path": str(STATIC)}),
            (r"/bokeh/(bokeh(?:-api)?\.min\.js)", Asset, common | {"path": bokeh}),
            (r".*", Missing, common),
        ],
        compress_response=True,
        log_function=lambda _: None,
    )


class Missing(Guarded):
    def get(self) -> None:
        raise HTTPError(404)


def serve(listener: socket.socket, runs: Sequence[WatchedRun], hosts: Hosts, door: Door | None) -> HTTPServer:
    """Begin to answer on a listening socket, in the running event loop."""
    # It has a line for each request that is none, from whomever, before any password.
    logging.getLogger("tornado.general").setLevel(logging.ERROR)
    server = HTTPServer(
        application(runs, hosts, door), max_body_size=MAX_BODY, max_header_size=2**14, idle_connection_timeout=60
    )
    listener.setblocking(False)
    server.add_sockets([listener])
    return server


def _basic(header: str) -> str | None:
    kind, _, value = header.partition(" ")
    if kind.lower() != "basic":
        return None
    try:
        return base64.b64decode(value, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return None
