from __future__ import annotations

import json
from typing import Any

import pytest

from deploy.backends.base import Ended, group_name
from deploy.backends.pods import Pod, PodOptions, label, manifest, read
from tests.helpers import kubernetes as made

IMAGE = "registry.lab/a3cd:1"
OPTIONS = PodOptions("actors", {"cpu": "1"}, {"memory": "1Gi"}, {"pool": "games"}, service_account="players")


def parsed(pod: dict[str, Any]) -> Any:
    """As the client reads it."""
    client = pytest.importorskip("kubernetes.client")
    return client.ApiClient().deserialize(json.dumps(pod), "V1Pod", "application/json")


def seen(status: dict[str, Any], **metadata: object) -> Pod | None:
    pod = manifest("a3cd-lab-1", 2, IMAGE, ["actor"], OPTIONS)
    return read(parsed(pod | {"status": status, "metadata": pod["metadata"] | metadata}))


def test_what_is_asked_for() -> None:
    pod = manifest("a3cd-lab-1", 2, IMAGE, ["actor", "tcp://gpu:5555"], OPTIONS)
    (container,) = pod["spec"]["containers"]
    assert container["args"] == ["actor", "tcp://gpu:5555", "--credential", "/keys/learner.credential"]
    assert container["resources"] == {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}}
    assert pod["spec"]["volumes"][1]["secret"] == {"secretName": "actors", "defaultMode": 0o440}
    assert pod["spec"]["nodeSelector"] == {"pool": "games"}
    assert pod["spec"]["serviceAccountName"] == "players"


def test_without_keys_nothing_of_them_is_there() -> None:
    pod = manifest("a3cd-lab-1", 2, IMAGE, ["actor", "--insecure"], PodOptions())
    assert "secret" not in json.dumps(pod)
    assert "--credential" not in json.dumps(pod)
    assert not {"nodeSelector", "serviceAccountName"} & pod["spec"].keys()


def test_the_clients_models_know_every_field() -> None:
    client = pytest.importorskip("kubernetes.client")
    pod = manifest("a3cd-lab-1", 2, IMAGE, ["actor"], OPTIONS)
    assert client.ApiClient().sanitize_for_serialization(parsed(pod)) == pod


@pytest.mark.parametrize("options", [OPTIONS, PodOptions()])
def test_by_kubernetes_schema(options: PodOptions) -> None:
    validate = pytest.importorskip("kubernetes_validate")
    validate.validate(manifest("a3cd-lab-1", 2, IMAGE, ["actor"], options), validate.latest_version(), strict=True)


@pytest.mark.parametrize("launcher", ["lab", "Ann's laptop", "k8s/lab.example.org", "-", "x" * 300])
def test_a_label_of_any_launcher(launcher: str) -> None:
    one, other = (label(group_name(launcher, learner)) for learner in ("tcp://a:1", "tcp://b:1"))
    assert one != other
    assert len(one) <= 63 - len("-4095")
    assert one.replace("-", "").isalnum() and one == one.lower() and one[0].isalpha()


def test_pods_at_work_and_on_their_way() -> None:
    assert seen(made.running()) == Pod(2, "a3cd-lab-1-2", running=True)
    assert seen({"phase": "Pending"}) == Pod(2, "a3cd-lab-1-2")
    assert seen(made.waiting("ContainerCreating")) == Pod(2, "a3cd-lab-1-2")
    leaving = seen(made.running(), deletionTimestamp="2026-01-01T00:00:00Z", deletionGracePeriodSeconds=20)
    assert leaving == Pod(2, "a3cd-lab-1-2", running=True, grace=20)


def test_one_without_a_slot_is_nobodys() -> None:
    assert seen(made.running(), labels={"a3cd/launcher": "a3cd-lab-1"}) is None


@pytest.mark.parametrize(
    ("status", "trouble"),
    [
        (made.waiting("ErrImagePull", "no such image"), "ErrImagePull: no such image (--image, and whether the nodes"),
        (made.waiting("CreateContainerConfigError", 'secret "a" not found'), 'CreateContainerConfigError: secret "a"'),
        (made.waiting("CrashLoopBackOff", "back-off 5m0s"), "CrashLoopBackOff: back-off 5m0s"),
        (made.unplaced("0/3 nodes are available"), "Unschedulable: 0/3 nodes are available (no node has room for it"),
    ],
)
def test_why_a_pod_waits(status: dict[str, Any], trouble: str) -> None:
    pod = seen(status)
    assert pod is not None
    assert pod.trouble.startswith(trouble)
    assert pod.ended is None


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (made.ended(0, "Completed"), 0, "Completed"),
        (made.ended(78, message="loading\nno environment 'x'\n"), 78, "Error\nloading\nno environment 'x'"),
        (made.ended(137, "OOMKilled"), 137, "OOMKilled (it needs more memory than --limit memory=...)"),
        ({"phase": "Failed", "reason": "Evicted", "message": "memory"}, 1, "Evicted\nmemory"),
        (made.taken("Preempted", "for another"), 0, "Preempted\nfor another"),
    ],
)
def test_how_a_pod_ended(status: dict[str, Any], code: int, words: str) -> None:
    pod = seen(status)
    assert pod is not None
    assert pod.ended == Ended(2, code, f"pod a3cd-lab-1-2: {words}")
    assert bool(pod.trouble) is ("DisruptionTarget" in str(status))
