"""The pods of actors: what a launcher asks Kubernetes for, and what it reads in its answers. No call is made here."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deploy.backends.base import Ended
from deploy.backends.process import ONE_THREAD
from deploy.backends.runner import last_line

LAUNCHER_LABEL = "a3cd/launcher"
SLOT_LABEL = "a3cd/slot"
CREDENTIAL = "learner.credential"
"""The item of the Secret with the actors' credential."""
_FOLDER = "/keys"
_NOBODY = 10001
"""The user of deploy/Containerfile."""
_ORDINARY = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Reasons for waiting that pass by themselves."""
_CURES = {
    "Unschedulable": "no node has room for it: --request, --node-selector",
    "ErrImagePull": "--image, and whether the nodes may pull it",
    "ImagePullBackOff": "--image, and whether the nodes may pull it",
    "InvalidImageName": "--image",
    "OOMKilled": "it needs more memory than --limit memory=...",
}


@dataclass(frozen=True)
class PodOptions:
    """What the operator asks of the pods."""

    secret: str = ""
    """Name of the Secret with the actors' credential; empty: no keys."""
    requests: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    service_account: str = ""


def label(group: str) -> str:
    """Returns a name from `group_name` in a form that may be a label's value and the beginning of a pod's name."""
    name, _, digest = group.rpartition("-")
    return f"{re.sub('[^a-z0-9]+', '-', name.lower())[:40].strip('-')}-{digest}"


def pod_name(group: str, slot: int) -> str:
    return f"{group}-{slot}"


def manifest(group: str, slot: int, image: str, words: Sequence[str], options: PodOptions) -> dict[str, Any]:
    """Returns a pod for the actor in a slot; `words`: the arguments of a3cd.

    Its kubelet does not start it again: the launcher does, and knows when that is of no use. What the actor last wrote
    is kept as its termination message, so that nobody needs the right to read logs.
    """
    volumes: list[dict[str, Any]] = [{"name": "tmp", "emptyDir": {}}]
    mounts: list[dict[str, Any]] = [{"name": "tmp", "mountPath": "/tmp"}]
    if options.secret:
        # 0o440, since a3cd takes no secret that others may read
        volumes.append({"name": "keys", "secret": {"secretName": options.secret, "defaultMode": 0o440}})
        mounts.append({"name": "keys", "mountPath": _FOLDER, "readOnly": True})
        words = [*words, "--credential", f"{_FOLDER}/{CREDENTIAL}"]
    container = {
        "name": "actor",
        "image": image,
        "args": list(words),
        "env": [{"name": name, "value": value} for name, value in ONE_THREAD.items()],
        "resources": {"requests": dict(options.requests), "limits": dict(options.limits)},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts,
    }
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 20,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _NOBODY,
            "fsGroup": _NOBODY,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": volumes,
        # When a node is lost, other pods take over after half a minute instead of five.
        "tolerations": [
            {"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}
            for what in ("not-ready", "unreachable")
        ],
    }
    if options.node_selector:
        spec["nodeSelector"] = dict(options.node_selector)
    if options.service_account:
        spec["serviceAccountName"] = options.service_account
    labels = {
        "app.kubernetes.io/name": "a3cd-actor",
        "app.kubernetes.io/managed-by": "a3cd-launcher",
        LAUNCHER_LABEL: group,
        SLOT_LABEL: str(slot),
    }
    metadata = {"name": pod_name(group, slot), "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@dataclass(frozen=True)
class Pod:
    """What the API says about a pod of ours."""

    slot: int
    name: str
    running: bool = False
    ended: Ended | None = None
    """How the actor ended; None: the pod still exists, perhaps in a queue or on its way out."""
    trouble: str = ""
    """Why it does not run, or was taken away; empty: nothing that a person need know."""
    grace: int | None = None
    """Seconds that the pod was given to leave; None: nobody asked it to leave."""


def read(pod: Any) -> Pod | None:
    """Reads the client's V1Pod; returns None for a pod without a slot."""
    slot = (pod.metadata.labels or {}).get(SLOT_LABEL, "")
    if not slot.isdecimal():
        return None
    number, name, status = int(slot), pod.metadata.name, pod.status
    state = next((one.state for one in status.container_statuses or () if one.name == "actor"), None)
    if status.phase in ("Succeeded", "Failed"):
        taken = _condition(status, "DisruptionTarget", "True")
        ended = _ended(number, name, status, state.terminated if state else None, taken is not None)
        return Pod(number, name, ended=ended, trouble=ended.last_words if taken else "")
    grace = pod.metadata.deletion_grace_period_seconds if pod.metadata.deletion_timestamp else None
    waiting = _waiting(status, state.waiting if state else None)
    return Pod(number, name, running=status.phase == "Running", trouble=waiting, grace=grace)


def _ended(slot: int, name: str, status: Any, terminated: Any, taken: bool) -> Ended:
    """How an actor ended, by the container's exit code.

    `taken`: its node or the scheduler took the pod away, which is no failure of the actor.
    """
    reason = status.reason or (terminated.reason if terminated else "") or status.phase
    cure = f" ({_CURES[reason]})" if reason in _CURES else ""
    message = (terminated.message if terminated else "") or status.message or ""
    words = "\n".join((f"pod {name}: {reason}{cure}", *map(last_line, message.splitlines()[-10:])))
    if status.phase == "Succeeded" or taken:
        return Ended(slot, 0, words)
    return Ended(slot, (terminated.exit_code if terminated else 0) or 1, words)


def _waiting(status: Any, waiting: Any) -> str:
    """Why a pod does not run; empty if the reason passes by itself."""
    if waiting is not None and (waiting.reason or "") not in _ORDINARY:
        return _told(waiting.reason, waiting.message)
    unplaced = _condition(status, "PodScheduled", "False")
    return _told(unplaced.reason, unplaced.message) if unplaced is not None else ""


def _told(reason: str | None, message: str | None) -> str:
    cure = f" ({_CURES[reason]})" if reason in _CURES else ""
    return f"{reason or 'not scheduled'}: {last_line(message or 'no message')}{cure}"


def _condition(status: Any, kind: str, value: str) -> Any:
    return next((one for one in status.conditions or () if (one.type, one.status) == (kind, value)), None)
