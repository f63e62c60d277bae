"""Against an API of pods alone, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from common.errors import ConfigurationError
from deploy.backends.base import Ended, Observation
from deploy.backends.kubernetes import STUCK_SECONDS, KubernetesBackend, connect
from deploy.backends.pods import PodOptions, manifest
from deploy.backends.runner import ToolError
from tests.helpers import kubernetes as made
from tests.helpers.kubernetes import Api, cluster

pytest.importorskip("kubernetes")
pytestmark = pytest.mark.usefixtures("nothing_left_behind")
GROUP = "a3cd-lab-1"


@pytest.fixture
def api(nothing_left_behind: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    with cluster() as (one, _):
        monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(one.config(tmp_path)))
        yield one


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def backend(api: Api, clock: Clock) -> Iterator[KubernetesBackend]:
    core, namespace = connect()
    options = PodOptions("actors")
    yield KubernetesBackend(
        core, namespace, GROUP, lambda slot, image: manifest(GROUP, slot, image, ["actor"], options), "a3cd", clock
    )
    core.api_client.close()


def say(api: Api, slot: int, status: dict[str, object]) -> None:
    api.pods[f"{GROUP}-{slot}"]["status"] = status


def test_what_a_start_would_be(backend: KubernetesBackend) -> None:
    words = "actor --credential /keys/learner.credential"
    assert backend.shown(2) == f"kubectl --namespace games run {GROUP}-2 --image=a3cd -- {words}"


def test_grows_and_shrinks_by_pods_of_their_own_names(backend: KubernetesBackend, api: Api) -> None:
    assert backend.observe() == Observation()
    backend.start([0, 2])
    assert api.calls == ["GET games", f"POST games {GROUP}-0", f"POST games {GROUP}-2"]
    assert backend.observe() == Observation(frozenset({0, 2}), frozenset({0, 2}))
    say(api, 0, made.running())
    assert backend.observe() == Observation(frozenset({0, 2}), frozenset({2}))
    backend.stop([0])
    assert api.calls[-1] == f"DELETE games {GROUP}-0"
    assert backend.observe() == Observation(frozenset({2}), frozenset({2})), "asked for: nothing to tell"
    assert backend.exit_status(0) == Ended(0, 0, "pod a3cd-lab-1-0 is gone")


def test_a_launcher_that_comes_back_finds_its_pods(backend: KubernetesBackend, api: Api) -> None:
    backend.start([1])
    core, namespace = connect(namespace="games")
    again = KubernetesBackend(core, namespace, GROUP, lambda slot, image: {})
    assert again.observe().alive == {1}
    again.stop([1])
    assert api.pods == {}
    core.api_client.close()


def test_a_pod_that_is_there_already_is_left_alone(backend: KubernetesBackend, api: Api) -> None:
    backend.start([1])
    backend.start([1])
    assert list(api.pods) == [f"{GROUP}-1"]


def test_one_that_failed_can_be_looked_at_until_its_slot_is_filled_again(backend: KubernetesBackend, api: Api) -> None:
    backend.start([1])
    say(api, 1, made.ended(78, message="no environment 'x'"))
    assert backend.observe().alive == set()
    assert backend.exit_status(1) == Ended(1, 78, "pod a3cd-lab-1-1: Error\nno environment 'x'")
    assert list(api.pods) == [f"{GROUP}-1"]
    backend.start([1])
    assert api.calls[-2:] == [f"DELETE games {GROUP}-1 in 0", f"POST games {GROUP}-1"]
    assert backend.observe().alive == {1}


def test_one_that_ended_well_leaves_nothing(backend: KubernetesBackend, api: Api) -> None:
    backend.start([1])
    say(api, 1, made.ended(0, "Completed"))
    backend.observe()
    assert backend.exit_status(1).exit_code == 0
    assert api.pods == {}


def test_who_does_not_leave_is_killed_and_a_lost_node_not_waited_for(backend: KubernetesBackend, api: Api) -> None:
    api.deleted = lambda name, grace: False
    backend.start([1])
    for kill in (False, True):
        backend.stop([1], kill=kill)
        assert backend.observe().alive == {1}, "its name is taken"
    assert api.calls[-2:] == [f"DELETE games {GROUP}-1 in 1", "GET games"]
    backend.stop([1], kill=True)
    assert api.calls[-1] == f"DELETE games {GROUP}-1 in 0"
    assert backend.observe().alive == set()


def test_what_happened_to_pods_is_told(backend: KubernetesBackend, api: Api, clock: Clock) -> None:
    backend.start([0, 1, 2, 3])
    say(api, 0, made.waiting("ErrImagePull", "not found"))
    say(api, 1, made.waiting("ErrImagePull", "not found"))
    say(api, 2, made.running())
    say(api, 3, made.waiting("ContainerCreating"))
    assert (
        backend.observe().note == "kubernetes: 2 x ErrImagePull: not found (--image, and whether the nodes may pull it)"
    )
    say(api, 2, made.taken("Preempted", "a more important pod"))
    for slot in (0, 1):
        del api.pods[f"{GROUP}-{slot}"]
    note = backend.observe().note
    assert "pod a3cd-lab-1-0 was deleted" in note
    assert "a more important pod" in note
    assert backend.exit_status(2).exit_code == 0, "no failure of the actor"
    assert backend.observe().note == "", "told once"
    clock.now = STUCK_SECONDS
    assert "does its Secret exist? kubectl describe pod a3cd-lab-1-3" in backend.observe().note


@pytest.mark.parametrize(
    ("refusal", "text"),
    [
        ((401, "Unauthorized"), r"^kubernetes: Unauthorized \(401\); its credential has expired or is wrong"),
        ((403, "pods is forbidden: User"), r"^kubernetes: pods is forbidden: User \(403\); .*launcher.yaml has the"),
        ((404, 'namespaces "x" not found'), r'^kubernetes: namespaces "x" not found \(404\)$'),
        ((422, 'Pod "a" is invalid'), r'^kubernetes: Pod "a" is invalid \(422\)$'),
    ],
)  # fmt: skip
def test_what_kubernetes_refuses_is_an_error(
    backend: KubernetesBackend, api: Api, refusal: tuple[int, str], text: str
) -> None:
    api.refusal = refusal
    with pytest.raises(ToolError, match=text):
        backend.observe()
    with pytest.raises(ToolError, match=text):
        backend.start([1])


def test_an_api_that_is_away_is_an_error_each_time(backend: KubernetesBackend, api: Api) -> None:
    api.close()
    for _ in range(2):
        with pytest.raises(
            ToolError, match=rf"^kubernetes: {api.url} does not answer: .*refused; does `kubectl get pods`"
        ):
            backend.observe()


def test_a_cluster_nobody_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "none"))
    with pytest.raises(ConfigurationError, match=r"no way to a Kubernetes: .*`kubectl get pods` must work here"):
        connect()


def test_a_launcher_in_a_pod_needs_to_be_told_nothing(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, _, port = api.url.removeprefix("http://").partition(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    for name in ("token", "namespace"):
        (tmp_path / name).write_text("lab")
    monkeypatch.setattr("deploy.backends.kubernetes._ACCOUNT", tmp_path)
    for name, file in (("TOKEN", str(tmp_path / "token")), ("CERT", pytest.importorskip("certifi").where())):
        monkeypatch.setattr(f"kubernetes.config.incluster_config.SERVICE_{name}_FILENAME", file)
    monkeypatch.setattr("platform.node", lambda: "launcher-x1")
    core, namespace = connect()
    assert namespace == "lab"
    assert core.api_client.configuration.host == api.url.replace("http:", "https:")
    core.api_client.configuration.refresh_api_key_hook = None  # it sets the host again
    core.api_client.configuration.host = api.url
    api.pods["launcher-x1"] = manifest("other", 0, "registry.lab/a3cd:7", [], PodOptions())
    backend = KubernetesBackend(
        core, namespace, GROUP, lambda slot, image: manifest(GROUP, slot, image, [], PodOptions())
    )
    backend.start([0])
    assert api.pods[f"{GROUP}-0"]["spec"]["containers"][0]["image"] == "registry.lab/a3cd:7"
    assert api.calls == ["GET lab launcher-x1", f"POST lab {GROUP}-0"]
    core.api_client.close()


def test_a_context_that_is_named_needs_no_current_one(api: Api, tmp_path: Path) -> None:
    file = api.config(tmp_path)
    kept = [line for line in file.read_text().splitlines() if "current-context" not in line]
    file.write_text("\n".join(kept))
    with pytest.raises(ConfigurationError, match="Expected key current-context"):
        connect()
    core, namespace = connect("lab")
    assert (core.api_client.configuration.host, namespace) == (api.url, "games")
    core.api_client.close()


def test_a_context_that_is_not_there(api: Api) -> None:
    with pytest.raises(ConfigurationError, match="Expected object with name other"):
        connect("other")
    core, namespace = connect("lab", "mine")
    assert (core.api_client.configuration.host, namespace) == (api.url, "mine")
    core.api_client.close()
