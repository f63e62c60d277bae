"""The figures of a run: counters that survive a restart, and measurements that do not."""

import math
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from itertools import repeat
from typing import Any

import msgspec

from common.rl.algorithms.statistics import known
from common.rl.episode import Episode
from common.run.status import EvaluationStatus, RunStatus
from common.settings.sections import Settings
from common.wire.messages import Contribution, Gradient, Observe
from learner.episode_window import EpisodeWindow
from learner.health import VitalSigns
from learner.host_look import HostLook
from learner.meters import Busy, LagMeter, Rate, Smoothed, rate_seconds
from learner.peer import Peer
from learner.peers import source_of
from learner.scaling import Bounds, Decision, FirstEpisodes, FleetMeter, Measurement, Totals, kept, start

FIRST_EPISODES = 4
"""Episodes of each environment that count as the run's first ones, with which later ones are compared."""
WARNINGS = 5  # shown at a time
ALONE_SECONDS = 60.0
"""After this time without another actor's contribution, an actor's returns are believed without confirmation."""


class Counters(msgspec.Struct, kw_only=True):
    """The run's counters over all epochs, kept in every checkpoint."""

    version: int = 0
    seconds: float = 0.0
    """Seconds of the epochs before this one."""
    frames: int = 0
    stepped_frames: int | None = None
    """Frames at the last optimizer step, which decide when the target network is renewed. None: as `frames`."""
    emulator_frames: int = 0
    episodes: int = 0
    gradients: int = 0
    stale: int = 0
    refused: int = 0
    duplicates: int = 0
    unknown: int = 0
    gradient_bytes: int = 0
    weight_bytes: int = 0
    action_bytes: int = 0
    actors_peak: int = 0
    wanted: int = 0
    bounds: Bounds | None = None
    """Bounds on the number of actors that an operator has set; None: those of the settings hold."""
    last_addition: int = 0
    """Number of episodes of the run when actors were last added."""
    crossings: int = 0
    """Number of additions of actors by scaling.form = "linear"."""
    first_length: float | None = None
    """Mean length in steps of the run's first episodes; None until there were enough."""
    best_return: float | None = None
    lowest_return: float | None = None
    evaluations: int = 0
    evaluation: EvaluationStatus | None = None
    """The last evaluation."""
    best_evaluation: EvaluationStatus | None = None
    returns_to_best: int = 0
    """Number of returns to the best checkpoint (checkpoint.return_to_best)."""
    learning_rate_factor: float = 1.0
    """Factor on the learning rate that these returns have set."""
    recent: list[Episode] = []
    """The last episodes, so that means continue after a restart."""
    recent_sources: list[str] = []
    """The source of each of these episodes, so that they are judged as before."""

    @property
    def last_step_frames(self) -> int:
        return self.frames if self.stepped_frames is None else self.stepped_frames


class RunStats:
    """Written by the core and its parts; read for status, metrics, limits and scaling."""

    def __init__(self, counters: Counters, settings: Settings, now: float, score: float | None = None) -> None:
        """`counters`, `score`: those of the checkpoint, or fresh ones."""
        scaling, window, decision = settings.scaling, settings.limits.window, start(settings.scaling)
        counters.bounds = kept(counters.bounds, scaling)
        self.counters = counters
        self.state = "running"
        recent = rate_seconds(settings)
        self.busy = Busy(recent, now)
        goes_on = counters.wanted or counters.bounds is not None
        self.decision = replace(decision, wanted=counters.wanted) if goes_on else decision
        self.window = EpisodeWindow(
            window,
            episodes=counters.episodes - len(counters.recent),
            best_return=counters.best_return,
            lowest_return=counters.lowest_return,
        )
        self.window.resume(counters.recent, counters.recent_sources, score)
        self._first = FirstEpisodes(
            max(window, FIRST_EPISODES * settings.environment.num_envs * max(1, scaling.minimum))
        )
        self._fleet = FleetMeter(scaling.interval_seconds)
        self._started = now
        self.clock = 0.0
        """Unix time, in seconds, at which `now` was 0; it changes when the system's clock is set."""
        self._learnt = math.inf
        """When the learning ended."""
        self._player = ""
        """The source whose contribution was used last."""
        self._played = now if counters.actors_peak > 1 else -math.inf
        self._other_played = -math.inf
        """When a contribution of another source was last used."""
        # In a reproducible run no clock may decide, so a late round must not make an actor count as alone.
        several = settings.reproducible and scaling.minimum > 1
        self._alone_seconds = math.inf if several else ALONE_SECONDS
        self._beside = False
        """Whether an actor joined while there was another one, since the last contribution."""
        self._lag = LagMeter()
        self._losses = Smoothed()
        self.raw_losses: Mapping[str, float] = {}
        """The figures of the last loss, not smoothed."""
        self._frames = Rate(recent, now)
        self._received = Rate(recent, now)
        self._bytes = Rate(recent, now)
        self.health: list[str] = []
        """What is wrong with the learning now, in words."""
        self._not_finite = 0
        self.host = HostLook()
        """The last look at this host."""
        self.warnings: deque[str] = deque(maxlen=WARNINGS)
        """What went wrong, although the run goes on; see `warn`."""

    # -- events: each is booked once, here, for the run and for the peer -----------------------------------------------

    def joined(self, actors: int) -> None:
        self.counters.actors_peak = max(self.counters.actors_peak, actors)
        self._beside |= actors > 1

    def received(self, now: float, size: int) -> None:
        """Count a body of `size` bytes that arrived, whether or not it is used."""
        self.counters.gradient_bytes += size
        self._bytes.add(now, size)

    def played(self, now: float, peer: Peer, message: Contribution | Observe) -> None:
        """Count the frames and episodes of a contribution that was used; those of others do not count.

        The steps of an actor's finished episodes cannot exceed the steps that it has played. An episode that would
        exceed them, such as one that began before this learner knew the actor, is left out.
        """
        for source in _players(peer, message):
            if source != self._player:
                self._player, self._other_played = source, self._played
            self._played = now
        if self._beside:
            self._beside, self._other_played = False, now
        self.window.alone = now - self._other_played > self._alone_seconds
        counters = self.counters
        counters.frames += message.steps
        counters.emulator_frames += message.emulator_frames
        self._frames.add(now, message.steps)
        peer.frames += message.steps
        peer.rate.add(now, message.steps)
        for episode, source in zip(message.episodes, _sources(peer, message), strict=False):
            if peer.finished_steps + episode.length <= peer.claimed_steps:
                peer.finished_steps += episode.length
                self.window.add(episode, source)
                if counters.first_length is None:
                    counters.first_length = self._first.add(episode.length)
        counters.episodes = self.window.episodes

    def lagged(self, now: float, peer: Peer, lag: int, rollouts: int = 1) -> None:
        """Count a message of one or several `rollouts` that were played with weights `lag` steps old."""
        lag = max(0, lag)
        if not peer.plays:
            peer.plays = True
            self._fleet.arrived()
        if self._fleet.received(lag, rollouts):
            self._fleet.mark(self._totals(now))
        self._received.add(now)
        self._lag.add(lag)
        peer.smooth_lag(lag)

    def stale(self, peer: Peer) -> None:
        peer.stale += 1
        self.counters.stale += 1

    def refused(self, peer: Peer, text: str) -> None:
        peer.refused += 1
        self.counters.refused += 1
        self.warn(text)

    def unknown(self, peer: Peer) -> None:
        """Count a message of another run or epoch as an offence of this peer."""
        peer.offences += 1
        self.counters.unknown += 1

    def duplicate(self) -> None:
        self.counters.duplicates += 1

    def applied(self, peer: Peer, statistics: Mapping[str, float]) -> None:
        """Count a contribution, or a group's rollout, that went into the weights; `statistics`: its loss, if known."""
        peer.gradients += 1
        self.counters.gradients += 1
        self._lost(statistics)

    def stepped(self, statistics: Mapping[str, float], frames: int) -> None:
        """Count a step of the weights, `frames` into the run; `statistics`: the loss, if the learner computed it."""
        self.counters.version += 1
        self.counters.stepped_frames = frames
        if statistics:
            self._lost(statistics)

    def _lost(self, statistics: Mapping[str, float]) -> None:
        """Take in the figures of a loss."""
        figures = known(statistics)
        self._losses.add(figures)
        self.raw_losses = figures or self.raw_losses

    def returned_to_best(self, factor: float) -> None:
        """Count a return to earlier weights as a new version; multiply the learning rate by `factor`."""
        self.counters.version += 1
        self.counters.returns_to_best += 1
        self.counters.learning_rate_factor *= factor

    def sent_weights(self, now: float, size: int) -> None:
        """Count weights that were sent; `size`: bytes to all receivers together."""
        self.counters.weight_bytes += size
        self._bytes.add(now, size)

    def sent_actions(self, now: float, size: int) -> None:
        self.counters.action_bytes += size
        self._bytes.add(now, size)

    def decided(self, decision: Decision) -> None:
        if decision.wanted > self.decision.wanted:
            self.counters.last_addition = self.counters.episodes
        self.decision = decision
        self.counters.wanted = decision.wanted
        self.counters.crossings += decision.crossed

    def warn(self, text: str) -> None:
        """Show that something went wrong, although the run goes on, until newer warnings displace it."""
        if text not in self.warnings:
            self.warnings.append(text)

    def not_finite(self) -> None:
        """Count a step in which no gradient was finite."""
        self._not_finite += 1

    def learnt(self, now: float) -> None:
        """Note that the learning has ended: the run's clock stands still."""
        self.state = "evaluating"
        self._learnt = now

    def diagnosed(self, told: list[str]) -> list[str]:
        """Take what is wrong now, in texts whose changing numbers are in brackets; return those that are new."""
        before = {text.partition("(")[0] for text in self.health}
        self.health = told
        return [text for text in told if text.partition("(")[0] not in before]

    # -- reports -------------------------------------------------------------------------------------------------------

    def seconds(self, now: float) -> float:
        """Return the seconds since the run began, without the pauses between epochs and the last evaluation."""
        return self.counters.seconds + min(now, self._learnt) - self._started

    @property
    def score(self) -> float | None:
        """Mean return of the last episodes, as far as it is confirmed; None until the window is full."""
        return self.window.score

    def messages_per_second(self, now: float) -> float:
        """Return the recent rate of contributions from all actors."""
        return self._received.value(now)

    def turned(self, now: float, worked: float, wall: float) -> None:
        """Note a turn of the daemon's loop, which worked for so many seconds; wall: Unix time."""
        self.busy.working(now, worked)
        self.clock = wall - now

    def saved(self, now: float) -> dict[str, Any]:
        plain: dict[str, Any] = msgspec.to_builtins(self.counters)
        return plain | {
            "seconds": self.seconds(now),
            "best_return": self.window.best_return,
            "lowest_return": self.window.lowest_return,
            "recent": msgspec.to_builtins(list(self.window.kept)),
            "recent_sources": self.window.names,
        }

    def measurement(self, now: float, actors: int, *, by_hand: int = 0, launchers: int = 0) -> Measurement:
        """Return the measurement for a scaling decision.

        `actors`: number of those that have sent contributions; `by_hand`: number of these that no launcher of the run
        has started.
        """
        window = self._fleet.look(self._totals(now), actors)
        return Measurement(
            actors=actors,
            by_hand=by_hand,
            launchers=launchers,
            wanted=self.decision.wanted,
            seconds=window.seconds,
            episodes_since=self.counters.episodes - self.counters.last_addition,
            mean_episode_length=self.window.mean_length,
            mean_episode_seconds=self.window.mean_seconds,
            first_length=self.counters.first_length,
            crossings=self.counters.crossings,
            learner_busy=window.busy,
            lag_mean=window.lag_mean,
            rollouts_per_second=window.rollouts_per_second,
            steps_per_second=window.steps_per_second,
            frames_per_second=window.frames_per_second,
        )

    def _totals(self, now: float) -> Totals:
        return Totals(now, self.busy.worked, self.counters.frames, self.counters.version)

    def vital_signs(self) -> VitalSigns:
        counters = self.counters
        return VitalSigns(
            mean_return=self.score,
            best_return=self.window.best_return,
            lowest_return=self.window.lowest_return,
            return_error=self.window.return_error,
            entropy=self._losses.values.get("entropy"),
            explained_variance=self._losses.values.get("explained_variance"),
            frames=counters.frames,
            episodes=counters.episodes,
            applied=counters.gradients,
            unused=counters.stale + counters.refused,
            not_finite=self._not_finite,
        )

    def figures(self, now: float, *, whole_run: bool = False) -> dict[str, Any]:
        """Return figures by their names in RunStatus; with `whole_run`, lag and busy cover the time since the start."""
        lag_mean, lag_p95 = self._lag.overall() if whole_run else self._lag.recent()
        counters = msgspec.structs.asdict(self.counters)
        return {
            **{name: value for name, value in counters.items() if name in RunStatus.__struct_fields__},
            "seconds": self.seconds(now),
            "mean_return": self.window.mean_return,
            "best_return": self.window.best_return,
            "episode_length": self.window.mean_length,
            "episode_seconds": self.window.mean_seconds,
            "frames_per_second": self._frames.value(now),
            "gradients_per_second": self._received.value(now),
            "bytes_per_second": self._bytes.value(now),
            "lag_mean": lag_mean,
            "lag_p95": lag_p95,
            "learner_busy": self.busy.overall(min(now, self._learnt)) if whole_run else self.busy.recent(now),
            "actors_wanted": self.decision.wanted,
            "why": self.decision.why,
            "losses": dict(self._losses.values),
            "health": self.health,
            "warnings": list(self.warnings),
        }


def _sources(peer: Peer, message: Contribution | Observe) -> Iterable[str]:
    """Return the source of each of the message's episodes."""
    if isinstance(message, Gradient) and message.summed:
        return [source_of(peer.hello.name, number) for number in message.players]
    return repeat(peer.hello.name)


def _players(peer: Peer, message: Contribution | Observe) -> Collection[str]:
    """Return the sources that have played, as far as the message tells: a relay names only those of episodes."""
    if isinstance(message, Gradient) and message.summed:
        return list(dict.fromkeys(_sources(peer, message)))
    return [peer.hello.name]
