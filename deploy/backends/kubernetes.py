"""Actors as pods of Kubernetes, one for each slot.

The launcher controls the pods itself, instead of a Job, Deployment or StatefulSet: it knows which slot to give up,
which actor hangs, and when another start is of no use. Each of those would choose the pod to delete itself, and would
start failing pods again for ever.
"""

import contextlib
import os
import platform
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from common.errors import ConfigurationError
from deploy.backends.base import Backend, Ended, Observation
from deploy.backends.pods import LAUNCHER_LABEL, Pod, pod_name, read
from deploy.backends.runner import ToolError, last_line

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TIMEOUT = (5.0, 20.0)
"""Timeouts to connect and for an answer, in seconds."""
_GONE, _EXISTS = 404, 409
STUCK_SECONDS = 60.0
"""A pod whose node makes no container for so long lacks something, although its status does not say what."""
_CURES = {
    401: "its credential has expired or is wrong: does `kubectl get pods` work here?",
    403: "deploy/kubernetes/launcher.yaml has the rights that a launcher needs",
}


class KubernetesBackend(Backend):
    """Creates, deletes and lists pods; those of an earlier launcher of this name are found by their label."""

    interval = 2.0
    outlives = True

    def __init__(
        self,
        api: Any,
        namespace: str,
        group: str,
        manifest: Callable[[int, str], Mapping[str, Any]],
        image: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`api`: the client's CoreV1Api; `group`: the label of the pods.

        `manifest`: makes a pod from a slot and an image. `image`: empty: that of the pod in which this launcher runs.
        """
        self._image = image
        self._clock = clock
        self._api = api
        self._namespace = namespace
        self._group = group
        self._manifest = manifest
        self._pods: dict[int, Pod] = {}
        """Pods by slot as last observed, including those that ended."""
        self._asked: set[int] = set()
        """Slots whose pod this launcher deleted."""
        self._waiting: dict[str, float] = {}
        """Names of pods that do not run, each with the time since when it was seen so."""

    def shown(self, slot: int) -> str:
        pod = self._manifest(slot, self._image or "OWN-IMAGE")
        name, (container,) = pod["metadata"]["name"], pod["spec"]["containers"]
        words = ["kubectl", "--namespace", self._namespace, "run", name, f"--image={container['image']}", "--"]
        return shlex.join([*words, *container["args"]])

    def start(self, slots: Sequence[int]) -> None:
        """Creates pods. One that exists is left alone: the next observation shows it."""
        self._image = self._image or self._own_image()
        for slot in slots:
            if slot in self._pods and self._pods[slot].ended:  # its name is still taken
                self._delete(slot, grace=0)
            self._asked.discard(slot)
            with _accepting(_EXISTS):
                self._call(self._api.create_namespaced_pod, self._namespace, self._manifest(slot, self._image))

    def stop(self, slots: Sequence[int], kill: bool = False) -> None:
        """Deletes pods. The second request to kill a pod deletes it at once, since its node may never answer again."""
        for slot in slots:
            pod = self._pods.get(slot)
            again = pod is not None and pod.grace is not None and pod.grace <= 1
            self._asked.add(slot)
            self._delete(slot, grace=(0 if again else 1) if kill else None)

    def observe(self) -> Observation:
        listed = self._call(
            self._api.list_namespaced_pod, self._namespace, label_selector=f"{LAUNCHER_LABEL}={self._group}"
        )
        before, self._pods = self._pods, {pod.slot: pod for pod in map(read, listed.items) if pod is not None}
        alive = {slot: pod for slot, pod in self._pods.items() if pod.ended is None}
        starting = {slot for slot, pod in alive.items() if not pod.running}
        gone = [
            f"pod {pod.name} was deleted"
            for slot, pod in before.items()
            if pod.ended is None and slot not in self._pods and slot not in self._asked
        ]
        troubles = [pod.trouble for slot, pod in self._pods.items() if pod.ended is None or slot in _alive(before)]
        troubles += self._stuck([alive[slot] for slot in starting])
        return Observation(frozenset(alive), frozenset(starting), _note([*troubles, *gone]))

    def _stuck(self, pods: Iterable[Pod]) -> list[str]:
        now = self._clock()
        self._waiting = {pod.name: self._waiting.get(pod.name, now) for pod in pods if not pod.trouble}
        stuck = [name for name, since in self._waiting.items() if now - since >= STUCK_SECONDS]
        text = (
            "waits for more than a minute without a reason in its status: does its Secret exist? kubectl describe pod"
        )
        return [f"{name} {text} {name}" for name in sorted(stuck)[:1]]

    def exit_status(self, slot: int) -> Ended:
        """A pod that failed stays until its slot is filled again, so that a person can look at it."""
        pod = self._pods.get(slot)
        if pod is None or pod.ended is None:
            return Ended(slot, 0, f"pod {pod_name(self._group, slot)} is gone")
        if pod.ended.exit_code == 0 or slot in self._asked:
            with contextlib.suppress(ToolError):  # the next start tries again
                self._delete(slot, grace=0)
        return pod.ended

    def _own_image(self) -> str:
        own = self._call(self._api.read_namespaced_pod, platform.node(), _own_namespace())
        return str(own.spec.containers[0].image)

    def _delete(self, slot: int, grace: int | None) -> None:
        """`grace`: seconds from SIGTERM to SIGKILL; None: as the pod says."""
        seconds = {} if grace is None else {"grace_period_seconds": grace}
        with _accepting(_GONE):
            self._call(self._api.delete_namespaced_pod, pod_name(self._group, slot), self._namespace, **seconds)

    def _call(self, method: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        from kubernetes.client.exceptions import ApiException
        from urllib3.exceptions import HTTPError

        try:
            return method(*arguments, **options, _request_timeout=_TIMEOUT)
        except ApiException as error:
            if error.status:
                raise _Refusal(error.status, error.body or error.reason or "no message") from None
            why = str(error.reason)  # for example a certificate that is not accepted
        except (HTTPError, OSError) as error:
            why = str(error)
        where = self._api.api_client.configuration.host
        raise ToolError(f"kubernetes: {where} does not answer: {last_line(why)}; does `kubectl get pods` work here?")


class _Refusal(ToolError):
    """The API answered that it refuses a request."""

    def __init__(self, status: int, body: str) -> None:
        self.status = status
        try:
            text = str(msgspec.json.decode(body)["message"])
        except (msgspec.DecodeError, KeyError, TypeError):
            text = body
        cure = f"; {_CURES[status]}" if status in _CURES else ""
        super().__init__(f"kubernetes: {last_line(text)} ({status}){cure}")


@contextlib.contextmanager
def _accepting(status: int) -> Iterator[None]:
    """Ignores a refusal with this status."""
    try:
        yield
    except _Refusal as refusal:
        if refusal.status != status:
            raise


def _alive(pods: Mapping[int, Pod]) -> set[int]:
    return {slot for slot, pod in pods.items() if pod.ended is None}


def _note(troubles: Iterable[str]) -> str:
    counts = Counter(trouble for trouble in troubles if trouble)
    return "; ".join(
        f"kubernetes: {f'{count} x ' if count > 1 else ''}{what}" for what, count in sorted(counts.items())
    )


def in_cluster() -> bool:
    """Whether this process runs in a pod."""
    return "KUBERNETES_SERVICE_HOST" in os.environ


def _own_namespace() -> str:
    return (_ACCOUNT / "namespace").read_text(encoding="utf-8").strip()


def connect(context: str = "", namespace: str = "") -> tuple[Any, str]:
    """Returns the API and the namespace to use, by the account of the pod that this runs in, else by a kubeconfig.

    Raises ConfigurationError if there is neither, or if the kubeconfig has no such `context`.
    """
    from kubernetes import client, config
    from kubernetes.config import kube_config
    from kubernetes.config.config_exception import ConfigException

    configuration = client.Configuration()
    try:
        if in_cluster() and not context:
            config.load_incluster_config(configuration)
            here = _own_namespace()
        else:
            config.load_kube_config(context=context or None, client_configuration=configuration)
            # list_kube_config_contexts() would want a current context even where `context` is another.
            merged = kube_config.KubeConfigMerger(kube_config.KUBE_CONFIG_DEFAULT_LOCATION).config
            chosen = kube_config.KubeConfigLoader(merged, active_context=context or None).current_context
            here = chosen["context"].get("namespace", "")
    except (ConfigException, OSError) as error:
        raise ConfigurationError(
            f"no way to a Kubernetes: {last_line(str(error))}; `kubectl get pods` must work here (KUBECONFIG, "
            "~/.kube/config), or the launcher run in a pod with a service account"
        ) from None
    configuration.retries = False  # the launcher tries again, and says so
    return client.CoreV1Api(client.ApiClient(configuration)), namespace or here or "default"
