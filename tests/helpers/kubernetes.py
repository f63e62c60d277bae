"""A Kubernetes API with pods only: the paths and answers that a launcher uses, over real HTTP on loopback."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from deploy import children

_PATH = re.compile(r"/api/v1/namespaces/([^/?]+)/pods(?:/([^/?]+))?(?:\?(.*))?")
CONFIG = """
apiVersion: v1
kind: Config
current-context: lab
contexts: [{{name: lab, context: {{cluster: lab, user: ann, namespace: games}}}}]
clusters: [{{name: lab, cluster: {{server: "{server}"}}}}]
users: [{{name: ann, user: {{token: secret}}}}]
"""
Json = dict[str, Any]


def running() -> Json:
    return {"phase": "Running", "containerStatuses": [_status({"running": {}})]}


def waiting(reason: str, message: str = "") -> Json:
    return {"phase": "Pending", "containerStatuses": [_status({"waiting": {"reason": reason, "message": message}})]}


def ended(code: int, reason: str = "Error", message: str = "") -> Json:
    state = {"terminated": {"exitCode": code, "reason": reason, "message": message}}
    return {"phase": "Failed" if code else "Succeeded", "containerStatuses": [_status(state)]}


def unplaced(message: str) -> Json:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return {"phase": "Pending", "conditions": [condition]}


def taken(reason: str, message: str) -> Json:
    return {
        "phase": "Failed",
        "reason": reason,
        "message": message,
        "conditions": [{"type": "DisruptionTarget", "status": "True"}],
    }


def _status(state: Json) -> Json:
    return {"name": "actor", "image": "a3cd", "imageID": "", "ready": False, "restartCount": 0, "state": state}


class Api:
    """The API server and its pods by name; the test, or a `Kubelet`, decides what becomes of them."""

    def __init__(self) -> None:
        self.pods: dict[str, Json] = {}
        self.calls: list[str] = []
        """Calls so far: method, namespace, name of the pod, and the grace period of a deletion."""
        self.refusal: tuple[int, str] | None = None
        """The answer to every call; None: calls are carried out."""
        self.deleted: Callable[[str, int | None], bool] = lambda _, __: True
        """Called for a deletion with the pod's uid and grace period; returns whether the pod is gone at once."""
        self._made = 0
        self.lock = threading.RLock()
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(*api.answer("GET", self.path, {}))

            def do_POST(self) -> None:
                self._answer(*api.answer("POST", self.path, self._body()))

            def do_DELETE(self) -> None:
                self._answer(*api.answer("DELETE", self.path, self._body()))

            def _body(self) -> Json:
                return json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")  # type: ignore[no-any-return]

            def _answer(self, status: int, content: Json) -> None:
                raw = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def config(self, folder: Path) -> Path:
        """Writes a kubeconfig for this API."""
        path = folder / "kubeconfig"
        path.write_text(CONFIG.format(server=self.url))
        return path

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, method: str, path: str, body: Json) -> tuple[int, Json]:
        match = _PATH.fullmatch(path)
        assert match is not None, path
        namespace, name, query = match.groups()
        grace = body.get("gracePeriodSeconds") if method == "DELETE" else None
        given = re.search(r"gracePeriodSeconds=(\d+)", query or "")
        grace = int(given[1]) if given else grace
        with self.lock:
            name = name or body.get("metadata", {}).get("name", "")
            self.calls.append(" ".join(filter(None, (method, namespace, name, "" if grace is None else f"in {grace}"))))
            if self.refusal is not None:
                return self.refusal[0], _refused(*self.refusal)
            return getattr(self, f"_{method.lower()}")(name, body, grace)  # type: ignore[no-any-return]

    def _get(self, name: str, *_: object) -> tuple[int, Json]:
        if name:
            return 200, self.pods[name]
        return 200, {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": list(self.pods.values())}

    def _post(self, name: str, body: Json, _: object) -> tuple[int, Json]:
        if name in self.pods:
            return 409, _refused(409, f'pods "{name}" already exists')
        self._made += 1
        self.pods[name] = body | {
            "status": {"phase": "Pending"},
            "metadata": body["metadata"] | {"uid": f"{self._made}"},
        }
        return 201, self.pods[name]

    def _delete(self, name: str, _: Json, grace: int | None) -> tuple[int, Json]:
        if name not in self.pods:
            return 404, _refused(404, f'pods "{name}" not found')
        pod = self.pods[name]
        if self.deleted(pod["metadata"]["uid"], grace) or grace == 0:
            del self.pods[name]
        else:
            pod["metadata"] |= {
                "deletionTimestamp": "2026-01-01T00:00:00Z",
                "deletionGracePeriodSeconds": pod["spec"]["terminationGracePeriodSeconds"] if grace is None else grace,
            }
        return 200, pod


def _refused(code: int, message: str) -> Json:
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code}


class Kubelet:
    """Runs the pods of an API as processes of this host."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._over = threading.Event()
        api.deleted = self._deleted
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @property
    def working(self) -> list[int]:
        with self._api.lock:
            return [process.pid for process in self._processes.values() if process.poll() is None]

    def _run(self) -> None:
        while not self._over.wait(0.05):
            with self._api.lock:
                pods = {pod["metadata"]["uid"]: pod for pod in self._api.pods.values()}
                for uid, pod in pods.items():
                    if uid not in self._processes:
                        self._start(uid, pod)
                    elif self._processes[uid].poll() is not None:
                        self._end(pod, self._processes[uid].returncode)
                for uid in set(self._processes) - set(pods):
                    _kill(self._processes.pop(uid))

    def _start(self, uid: str, pod: Json) -> None:
        words = children.a3cd(*pod["spec"]["containers"][0]["args"])
        quiet = subprocess.DEVNULL
        self._processes[uid] = subprocess.Popen(words, stdin=quiet, stdout=quiet, stderr=quiet)
        pod["status"] = running()

    def _end(self, pod: Json, code: int) -> None:
        pod["status"] = ended(code if code >= 0 else 128 - code)
        if "deletionTimestamp" in pod["metadata"]:
            del self._api.pods[pod["metadata"]["name"]]

    def _deleted(self, uid: str, _: int | None) -> bool:
        process = self._processes.get(uid)
        if process is None or process.poll() is not None:
            return True
        process.terminate()
        return False

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        for process in self._processes.values():
            _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


@contextmanager
def cluster(*, nodes: bool = False) -> Iterator[tuple[Api, Kubelet | None]]:
    """Serves an API while the block runs; `nodes`: whether pods run, as processes."""
    api = Api()
    kubelet = Kubelet(api) if nodes else None
    try:
        yield api, kubelet
    finally:
        if kubelet is not None:
            kubelet.close()
        api.close()
