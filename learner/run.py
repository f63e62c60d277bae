"""One run as all parts of the learner see it: its specification, peers and figures, and the reports on them."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from common.rl.moments import bytes_in_header
from common.rl.named_tensors import NamedTensor
from common.run.status import RunStatus
from common.settings.exchanges import MAX_LIST_ITEMS, most_in_message, most_in_sum, why_no_relay
from common.settings.sections import Network, Settings
from learner.peers import Peers
from learner.run_stats import RunStats
from learner.save_schedule import SaveSchedule

HEADER_BYTES = 2**16
"""Bytes of the longest header of a message, without its episodes and moments."""
MOMENT_BYTES = 2**19
"""Most bytes that the moments in one header may take."""
EPISODE_BYTES = 1 + 3 * 9 + 9
"""Most bytes that one episode takes in a header, with the number of its player."""
SEEDS_PER_RUN = 100_003
"""Distance between the actor seeds of runs with neighbouring seeds, so that they do not overlap."""
METRICS = (
    "seconds", "frames", "episodes", "version", "gradients", "stale", "refused", "mean_return", "best_return",
    "episode_length", "episode_seconds", "frames_per_second", "gradients_per_second", "bytes_per_second",
    "lag_mean", "lag_p95", "learner_busy", "actors_wanted", "why",
)  # fmt: skip
"""Figures in each row of metrics, besides the number of actors, the losses and the actors' paces."""
ACTORS_COUNTED = 256
"""Most actors whose frames per second are measured for a row: each takes some microseconds."""
ACTORS_NAMED = 16
"""Most actors for which a row names each one's frames per second."""
EVALUATED = {
    "evaluation_return": "mean", "evaluation_low": "low", "evaluation_high": "high",
    "evaluation_episodes": "episodes", "evaluation_version": "version", "evaluation_frames": "frames",
    "evaluation_seconds": "seconds",
}  # fmt: skip
"""Figures of the last evaluation, by their names in a row. Each row repeats them, since rows are thinned out later."""


@dataclass(frozen=True)
class RunSpec:
    run: str
    epoch: int
    settings: Settings
    model: str
    """Hash of the network."""
    parameters: int
    device: str
    host: str
    run_dir: str
    weights_port: int
    weights_format: str
    longest_episode: int = 0
    """Length of the longest possible episode in agent steps; 0: not known."""
    step_seconds: float = 0.0
    """Seconds that a step of an actor's batch of environments takes on this host; 0: not measured."""
    layout: tuple[NamedTensor, ...] = ()
    """Names of the weights' tensors in checkpoints; empty: the weights are one vector."""
    counted: int = 0
    """Count of the numbers whose moments come with each contribution."""
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def header_bytes(self) -> int:
        """Bytes of the longest header that an actor or a relay of this run sends: each step may end an episode."""
        own = most_in_message(self.settings)
        rollouts = own if why_no_relay(self.settings) else most_in_sum(self.settings)
        steps = rollouts * self.settings.algorithm.rollout_length * self.settings.environment.num_envs
        episodes = min(steps, MAX_LIST_ITEMS) * EPISODE_BYTES
        return HEADER_BYTES + episodes + own * bytes_in_header(self.counted)

    def actor_seed(self, ordinal: int) -> int:
        """Return the seed of the actor that joined this epoch as the `ordinal`-th; seeds differ from epoch to epoch."""
        seed = self.settings.seed * SEEDS_PER_RUN + ordinal
        if self.epoch == 1:
            return seed
        return int(np.random.SeedSequence([seed, self.epoch]).generate_state(1, np.uint64)[0] >> 1)


@dataclass(frozen=True)
class Run:
    """What the core, its exchange and its publisher share."""

    spec: RunSpec
    peers: Peers
    stats: RunStats
    saves: SaveSchedule

    def metrics(self, now: float) -> dict[str, Any]:
        """Return a row of metrics: figures by name, with a table of raw losses and one of the actors' paces."""
        figures = self.stats.figures(now)
        row = {name: figures[name] for name in METRICS} | {"actors": self.peers.actors, **figures["losses"]}
        return row | self.evaluated() | {"raw": dict(self.stats.raw_losses)} | self._paces(now)

    def evaluated(self) -> dict[str, Any]:
        """Return the figures of the last evaluation for a row of metrics; none before the first."""
        evaluation = self.stats.counters.evaluation
        return {} if evaluation is None else {key: getattr(evaluation, of) for key, of in EVALUATED.items()}

    def _paces(self, now: float) -> dict[str, Any]:
        """Return the frames per second of the playing actors: least, median and most; for a few actors also each one's.

        Of many actors, those that joined first stand for all.
        """
        playing = [peer for _, peer in self.peers.role("actor") if peer.plays][:ACTORS_COUNTED]
        paces = [(peer.hello.name, peer.rate.value(now)) for peer in playing]
        for _, relay in self.peers.role("relay"):  # actors of two sites may have the same name
            paces += [(name, figure) for _, name, figure in relay.site.named] if relay.site else []
        if not paces:
            return {}
        ordered = sorted(figure for _, figure in paces)
        found: dict[str, Any] = {
            "actor_frames_per_second_least": ordered[0],
            "actor_frames_per_second_median": ordered[len(ordered) // 2],
            "actor_frames_per_second_most": ordered[-1],
        }
        return found | ({"actor_frames_per_second": dict(paces)} if len(paces) <= ACTORS_NAMED else {})

    def status(self, now: float, *, whole_run: bool = False) -> RunStatus:
        """Return the run's status; with `whole_run`, lag and busy cover the time since the start, not the recent."""
        spec, stats = self.spec, self.stats
        settings, counters = spec.settings, stats.counters
        limits = settings.limits
        actors, relays = self.peers.role("actor"), self.peers.role("relay")
        return RunStatus(
            run=spec.run,
            epoch=spec.epoch,
            time=stats.clock + now,
            versions=spec.versions,
            exchange=settings.exchange.kind,
            state=stats.state,
            env=settings.environment.id,
            algorithm=settings.algorithm.kind,
            network=_network(settings.network),
            parameters=spec.parameters,
            seed=settings.seed,
            codec=", ".join(sorted({peer.codec for _, peer in [*actors, *relays]})),
            device=spec.device,
            run_dir=spec.run_dir,
            goal=limits.until_return,
            seconds_left=max(0.0, limits.seconds - stats.seconds(now)) if limits.seconds else None,
            frames_left=max(0, limits.frames - counters.frames) if limits.frames else None,
            episodes_left=max(0, limits.episodes - counters.episodes) if limits.episodes else None,
            reached=stats.state == "reached",
            actors_now=self.peers.actors,
            quarantined=self.peers.quarantine.status(now),
            actors=[peer.status(now) for _, peer in actors],
            relays=[peer.relay_status(now) for _, peer in relays],
            launchers=[peer.fleet_status() for _, peer in self.peers.role("launcher")],
            checkpoint=self.saves.status(now),
            disk_free=stats.host.disk_free,
            hosts=self.peers.hosts(spec.host, stats.host.load),
            keys=self.peers.keys(now),
            **stats.figures(now, whole_run=whole_run),
        )


def _network(section: Network) -> str:
    return f"{section.kind} lstm {section.lstm}" if section.lstm else section.kind
