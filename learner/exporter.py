"""Answers Prometheus: the newest status of the run as metrics, at /metrics over HTTP, on threads of its own.

The learner's thread hands over a status once a second and never waits. A client that asks often, slowly or endlessly
can only take the places of other clients: few connections are served at a time and per second, and each is ended in
time. If only this machine can connect, so can the pages in its users' browsers: a request must name this machine.
"""

from __future__ import annotations

import contextlib
import logging
import math
import socket
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from common.host.addresses import Address
from common.host.host_header import Hosts
from common.host.service.logs import LineLimit
from common.run import prometheus
from common.run.status import RunStatus
from common.wire import sockets

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

PATH = "/metrics"
CONNECTIONS = 8
"""Most connections at a time; further ones are closed unread."""
APART_SECONDS = 0.1
"""Least seconds between two connections: a scrape takes some milliseconds of the learner's processor."""
LONGEST_SECONDS = 5.0
"""Longest time of a connection, after which it is ended."""
LOOK_SECONDS = 0.5
"""Seconds between two looks for connections that have taken longer."""
REPEAT_SECONDS = 60.0
_log = logging.getLogger("learner")


class Exporter:
    """A context manager that listens from its creation on, and answers once `start` is called."""

    def __init__(self, address: Address) -> None:
        """Raises ConfigurationError if prometheus_client is not installed, and what `sockets.reserve` raises."""
        self._statuses: list[RunStatus] = []
        registry = prometheus.registry_of(lambda: self._statuses, process=True)
        hosts = Hosts({address.host, socket.gethostname()}, loopback=True) if address.loopback else None
        self._server = _Server(sockets.reserve(address, "--metrics"), registry, hosts)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(LOOK_SECONDS,), name="exporter", daemon=True
        )

    @property
    def url(self) -> str:
        host, port = self._server.socket.getsockname()[:2]
        return f"http://[{host}]:{port}{PATH}" if ":" in host else f"http://{host}:{port}{PATH}"

    def start(self) -> None:
        self._thread.start()

    def show(self, status: RunStatus) -> None:
        """Answer with this status from now on."""
        self._statuses = [status]

    def __enter__(self) -> Exporter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    """Serves each connection on a thread of its own; closes connections that are too many or take too long."""

    daemon_threads = False  # so that closing waits for the threads, which end at once

    def __init__(self, listener: socket.socket, registry: CollectorRegistry, hosts: Hosts | None) -> None:
        """`hosts`: the names under which it answers; None: any."""
        super().__init__(listener.getsockname()[:2], _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.registry = registry
        self.hosts = hosts
        self.lines = LineLimit(REPEAT_SECONDS, 1.0, 1)
        self._lock = threading.Lock()
        self._open: dict[socket.socket, float] = {}
        """When each open connection is to be ended; accessed under the lock."""

    def get_request(self) -> tuple[socket.socket, Any]:
        try:
            return super().get_request()
        except OSError:  # no descriptors are left; without a pause the waiting connection would be tried again at once
            time.sleep(LOOK_SECONDS)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            admitted = len(self._open) < CONNECTIONS
            if admitted:
                self._open[request] = time.monotonic() + LONGEST_SECONDS
        if admitted:
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)
        time.sleep(APART_SECONDS)

    def service_actions(self) -> None:
        self._end(time.monotonic())

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def server_close(self) -> None:
        self._end(math.inf)
        super().server_close()

    def _end(self, now: float) -> None:
        with self._lock:
            late = [one for one, until in self._open.items() if now >= until]
        for one in late:
            with contextlib.suppress(OSError):  # raised if the connection has ended by itself
                one.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore the error of a connection that broke or was ended."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        host, hosts = self.headers.get("Host"), self.server.hosts
        if hosts is not None and host is not None and not hosts.allow(host):  # no browser leaves the header out
            why = "the metrics are told under this machine's own names only, such as localhost and 127.0.0.1\n"
            self._answer(HTTPStatus.FORBIDDEN, "text/plain", why.encode())
            return
        if self.path.partition("?")[0] != PATH:
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", f"the metrics are at {PATH}\n".encode())
            return
        try:
            content_type, text = prometheus.page(self.server.registry, self.headers.get("Accept", ""))
        except Exception as error:  # none is expected; the run goes on
            if self.server.lines.admit(time.monotonic(), "page") is not None:
                _log.error("the metrics could not be told: %r", error, exc_info=error)
            self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain", b"see the learner's log\n")
            return
        self._answer(HTTPStatus.OK, content_type, text)

    def _answer(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def version_string(self) -> str:
        return "a3cd"

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: scrapes would fill the log."""
