"""A run's status as metrics for Prometheus, named by its conventions (https://prometheus.io/docs/practices/naming/).

Each series has the label `run`, and each counter the label `epoch` as well: a resumed run goes back to its last
checkpoint, and Prometheus takes a counter that falls for one that began at 0 again. There are never more than some
hundred series, however many peers there are: only the first PEERS_NAMED that joined have figures of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from common.errors import ConfigurationError
from common.run.status import FleetStatus, HostStatus, PeerStatus, RelayStatus, RunStatus

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric

PEERS_NAMED = 100
"""Most actors, launchers and relays, and most actors of sites, that have series of their own."""
STATES = ("running", "evaluating", "reached", "finished", "stopped", "failed")
Sample = tuple[tuple[str, ...], float | None]
"""The values of a family's labels, and a figure; None: there is none at present, and so no series."""


class Family(NamedTuple):
    name: str
    """The name of the metric, without a counter's `_total`."""
    help: str
    samples: Callable[[RunStatus], Iterable[Sample]]
    labels: tuple[str, ...] = ()
    counter: bool = False


def families(statuses: Collection[RunStatus]) -> Iterator[Metric]:
    """Yield the metrics of runs at the moment of their `statuses`, each of which is of another run."""
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

    for family in FAMILIES if statuses else ():
        kind = CounterMetricFamily if family.counter else GaugeMetricFamily
        own_labels = ("run", "epoch") if family.counter else ("run",)
        metric = kind(family.name, family.help, labels=own_labels + family.labels)
        for status in statuses:
            own = (status.run, str(status.epoch))[: len(own_labels)]
            for values, figure in family.samples(status):
                if figure is not None:
                    metric.add_metric(own + values, figure)
        yield metric


class StatusCollector:
    """Gives prometheus_client, at each scrape, the metrics of the newest statuses."""

    def __init__(self, newest: Callable[[], Collection[RunStatus]]) -> None:
        """`newest` is called on the thread that answers the scrape; without a status there is no metric."""
        self._newest = newest

    def collect(self) -> Iterator[Metric]:
        return families(self._newest())

    def describe(self) -> Iterator[Metric]:
        """Return nothing: which metrics there are depends on the status."""
        return iter(())


def registry_of(newest: Callable[[], Collection[RunStatus]], *, process: bool = False) -> CollectorRegistry:
    """Return a new registry with the runs' metrics and, with `process`, those of this process (memory, CPU, files).

    Raises ConfigurationError where prometheus_client is not installed.
    """
    try:
        from prometheus_client import CollectorRegistry, ProcessCollector
    except ModuleNotFoundError as error:
        if error.name != "prometheus_client":
            raise
        raise ConfigurationError(
            "metrics for Prometheus need prometheus_client, which is not installed here: pip install 'a3cd[prometheus]'"
        ) from error
    registry = CollectorRegistry()
    registry.register(StatusCollector(newest))  # type: ignore[arg-type,unused-ignore]
    if process:
        ProcessCollector(registry=registry)
    return registry


def page(registry: CollectorRegistry, accept: str = "") -> tuple[str, bytes]:
    """Return the answer to a scrape: content type and text, in the format that the Accept header asks for."""
    from prometheus_client.exposition import choose_encoder

    try:
        encode, content_type = choose_encoder(accept)
    except (TypeError, ValueError):  # a version that is no number
        encode, content_type = choose_encoder("")
    return content_type, encode(registry)


def _of_run(name: str, help: str, figure: Callable[[RunStatus], float | None], *, counter: bool = False) -> Family:
    return Family(name, help, lambda status: [((), figure(status))], counter=counter)


def _of_actor(name: str, help: str, figure: Callable[[PeerStatus], float], *, counter: bool = False) -> Family:
    return Family(name, help, lambda status: _first(status.actors, figure), ("actor", "host"), counter)


def _of_relay(name: str, help: str, figure: Callable[[RelayStatus], float], *, counter: bool = False) -> Family:
    return Family(name, help, lambda status: _first(status.relays, figure), ("relay", "host"), counter)


def _of_launcher(name: str, help: str, figure: Callable[[FleetStatus], float], *, counter: bool = False) -> Family:
    return Family(name, help, lambda status: _first(status.launchers, figure), ("launcher", "host"), counter)


def _of_host(name: str, help: str, figure: Callable[[HostStatus], float]) -> Family:
    return Family(
        name, help, lambda status: [((host.name,), figure(host)) for host in status.hosts[:PEERS_NAMED]], ("host",)
    )


def _first(peers: Iterable[Any], figure: Callable[[Any], float]) -> Iterator[Sample]:
    """Yield the figures of the first PEERS_NAMED peers, of those with equal labels only the first that joined.

    Prometheus takes only one series with the same labels.
    """
    seen: dict[tuple[str, ...], Any] = {}
    for peer in peers:
        seen.setdefault((peer.name, peer.host), peer)
    return islice(((labels, figure(peer)) for labels, peer in seen.items()), PEERS_NAMED)


def _info(status: RunStatus) -> list[Sample]:
    values = (status.env, status.algorithm, status.network, status.exchange, status.device)
    return [((str(status.epoch), *values, status.versions.get("a3cd", "")), 1.0)]


def _paces(status: RunStatus) -> list[Sample]:
    there = [pace for relay in status.relays for pace in relay.site.values()]
    paces = sorted([*there, *(actor.frames_per_second for actor in status.actors)])
    if not paces:
        return []
    return [(("least",), paces[0]), (("median",), paces[len(paces) // 2]), (("most",), paces[-1])]


def _site_paces(status: RunStatus) -> Iterator[Sample]:
    relays = {relay.name: relay for relay in reversed(status.relays)}
    named = (((actor, name), pace) for name, relay in relays.items() for actor, pace in relay.site.items())
    return islice(named, PEERS_NAMED)


def _evaluated(figure: str) -> Callable[[RunStatus], list[Sample]]:
    def samples(status: RunStatus) -> list[Sample]:
        of = {"last": status.evaluation, "best": status.best_evaluation}
        return [((weights,), getattr(evaluation, figure, None)) for weights, evaluation in of.items()]

    return samples


FAMILIES = (
    Family(
        "a3cd_run_info",
        "What is trained and how; always 1.",
        _info,
        ("epoch", "env", "algorithm", "network", "exchange", "device", "version"),
    ),
    Family(
        "a3cd_run_state",
        "1 for the state that the run is in.",
        lambda status: [((state,), float(state == status.state)) for state in STATES],
        ("state",),
    ),
    _of_run("a3cd_status_timestamp_seconds", "The learner's clock when it reported all this.", lambda run: run.time),
    _of_run("a3cd_training_seconds", "Time trained, all epochs together.", lambda run: run.seconds, counter=True),
    # -- what was played and learnt
    _of_run("a3cd_frames", "Steps of the agents.", lambda run: run.frames, counter=True),
    _of_run("a3cd_emulator_frames", "Frames of the environments.", lambda run: run.emulator_frames, counter=True),
    _of_run("a3cd_episodes", "Finished episodes.", lambda run: run.episodes, counter=True),
    _of_run("a3cd_versions", "Versions of the weights: optimizer steps.", lambda run: run.version, counter=True),
    Family(
        "a3cd_gradients",
        "Gradients or rollouts that came, by what became of them.",
        lambda run: [
            (("applied",), run.gradients),
            (("stale",), run.stale),
            (("refused",), run.refused),
            (("duplicate",), run.duplicates),
            (("unknown",), run.unknown),
        ],
        ("outcome",),
        counter=True,
    ),
    _of_run("a3cd_mean_return", "Mean training return of the last episodes.", lambda run: run.mean_return),
    _of_run("a3cd_best_return", "Highest such mean.", lambda run: run.best_return),
    _of_run("a3cd_goal_return", "limits.until_return, where it is set.", lambda run: run.goal),
    _of_run("a3cd_episode_length_steps", "Mean length of the last episodes.", lambda run: run.episode_length),
    _of_run("a3cd_episode_duration_seconds", "The same in seconds.", lambda run: run.episode_seconds),
    Family(
        "a3cd_loss",
        "Running means of the loss's figures.",
        lambda run: [((name,), figure) for name, figure in run.losses.items()],
        ("figure",),
    ),
    _of_run("a3cd_evaluations", "Reports of evaluators.", lambda run: run.evaluations, counter=True),
    Family("a3cd_evaluation_mean_return", "Of evaluated weights.", _evaluated("mean"), ("weights",)),
    Family("a3cd_evaluation_low_return", "Lower end of its 95 % interval.", _evaluated("low"), ("weights",)),
    Family("a3cd_evaluation_high_return", "Upper end of its 95 % interval.", _evaluated("high"), ("weights",)),
    _of_run(
        "a3cd_returns_to_best",
        "Times the best checkpoint was gone back to.",
        lambda run: run.returns_to_best,
        counter=True,
    ),
    _of_run("a3cd_learning_rate_factor", "On optimizer.learning_rate.", lambda run: run.learning_rate_factor),
    _of_run("a3cd_health_problems", "What is wrong with the learning now.", lambda run: len(run.health)),
    # -- the exchange
    _of_run("a3cd_gradient_lag_versions", "Mean age of the last gradients.", lambda run: run.lag_mean),
    _of_run("a3cd_gradient_lag_p95_versions", "Its 95th percentile.", lambda run: run.lag_p95),
    _of_run("a3cd_learner_busy_ratio", "Part of the time that its thread was at work.", lambda run: run.learner_busy),
    _of_run("a3cd_received_bytes", "Bodies that actors uploaded.", lambda run: run.gradient_bytes, counter=True),
    Family(
        "a3cd_sent_bytes",
        "Weights and actions that the learner sent.",
        lambda run: [(("weights",), run.weight_bytes), (("actions",), run.action_bytes)],
        ("kind",),
        counter=True,
    ),
    # -- the checkpoint
    _of_run("a3cd_checkpoint_age_seconds", "Training that no checkpoint holds.", lambda run: run.checkpoint.age),
    _of_run("a3cd_checkpoint_version", "Of the newest checkpoint.", lambda run: run.checkpoint.version),
    _of_run("a3cd_checkpoint_failing", "1: the last try to write one failed.", lambda run: bool(run.checkpoint.error)),
    # -- who is in the run
    _of_run("a3cd_actors", "Actors in the run.", lambda run: run.actors_now),
    _of_run("a3cd_actors_wanted", "Actors that the learner wants of its launchers.", lambda run: run.actors_wanted),
    _of_run("a3cd_quarantined", "Names and places kept out at present.", lambda run: len(run.quarantined)),
    Family("a3cd_actors_frames_per_second", "Of all actors, by rank.", _paces, ("rank",)),
    _of_actor("a3cd_actor_frames", "Steps that it played.", lambda actor: actor.frames, counter=True),
    _of_actor(
        "a3cd_actor_gradients_applied",
        "Gradients or rollouts of it that were applied.",
        lambda actor: actor.gradients,
        counter=True,
    ),
    _of_actor(
        "a3cd_actor_gradients_dropped",
        "Those that were stale or refused.",
        lambda actor: actor.stale + actor.refused,
        counter=True,
    ),
    _of_actor("a3cd_actor_lag_versions", "Mean age of its last gradients.", lambda actor: actor.lag),
    _of_actor("a3cd_actor_silent_seconds", "Since its last message.", lambda actor: actor.seen),
    _of_run("a3cd_relays", "Relays in the run.", lambda run: len(run.relays)),
    _of_relay("a3cd_relay_actors", "Actors of its site.", lambda relay: relay.actors),
    _of_relay("a3cd_relay_frames", "Steps that its site played.", lambda relay: relay.frames, counter=True),
    _of_relay("a3cd_relay_sums_applied", "Sums of it that were applied.", lambda relay: relay.gradients, counter=True),
    _of_relay(
        "a3cd_relay_sums_dropped",
        "Those that were stale or refused.",
        lambda relay: relay.stale + relay.refused,
        counter=True,
    ),
    _of_relay(
        "a3cd_relay_gradients_dropped",
        "Gradients of its actors that were stale or refused at the relay.",
        lambda relay: relay.site_stale + relay.site_refused,
        counter=True,
    ),
    _of_relay("a3cd_relay_lag_versions", "Mean age of its last sums.", lambda relay: relay.lag),
    _of_relay("a3cd_relay_silent_seconds", "Since its last message.", lambda relay: relay.seen),
    Family("a3cd_site_actor_frames_per_second", "Of an actor behind a relay.", _site_paces, ("actor", "relay")),
    _of_run("a3cd_launchers", "Launchers in the run.", lambda run: len(run.launchers)),
    _of_launcher("a3cd_launcher_slots", "Actors that it can run.", lambda launcher: launcher.slots),
    _of_launcher("a3cd_launcher_ordered", "Actors that it was ordered to run.", lambda launcher: launcher.ordered),
    _of_launcher("a3cd_launcher_running", "Actors that it runs.", lambda launcher: launcher.running),
    _of_launcher("a3cd_launcher_gave_up", "1: no actor can be started there.", lambda launcher: launcher.gave_up),
    _of_launcher("a3cd_launcher_failures", "Actors that ended untold.", lambda launcher: launcher.failed, counter=True),
    _of_launcher(
        "a3cd_launcher_restarts_most",
        "How often its actor was started again that was so most often.",
        lambda launcher: max(launcher.restarts.values(), default=0),
    ),
    # -- hosts and keys
    _of_run("a3cd_disk_free_bytes", "That the disk of the run folder has left.", lambda run: run.disk_free),
    _of_host("a3cd_host_processor_ratio", "Part of its processors' time that is used.", lambda host: host.processor),
    _of_host("a3cd_host_memory_bytes", "In use on the host.", lambda host: host.memory),
    _of_host("a3cd_host_memory_total_bytes", "That the host has.", lambda host: host.memory_total),
    Family(
        "a3cd_key_silent_seconds",
        "Since the last message under a key of the list.",
        lambda run: [((key.name,), key.seen) for key in run.keys[:PEERS_NAMED]],
        ("key",),
    ),
)
