"""The figures of a run: counters that survive a restart, and measurements that do not."""

import math
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from itertools import chain, repeat
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
from learner.meters import Busy, LagMeter, Rate, Smoothed
from learner.peer import Peer
from learner.peers import source_of
from learner.scaling import Bounds, Decision, FirstEpisodes, FleetMeter, Measurement, Totals, kept, start

WINDOW_SECONDS = 5.0
"""Of the rates shown to people."""
FIRST_EPISODES = 4
"""In each environment: the run's first ones, with which later ones are compared."""
WARNINGS = 5  # shown at a time
ALONE_SECONDS = 60.0
"""After this time without another actor's contribution, one is believed without anybody to confirm its returns."""


class Counters(msgspec.Struct, kw_only=True):
    """Over all epochs; kept in every checkpoint."""

    version: int = 0
    seconds: float = 0.0
    """Of the epochs before this one."""
    frames: int = 0
    stepped_frames: int | None = None
    """Frames at the last optimizer step: when the target network is renewed depends on them. None: as `frames`."""
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
    """That an operator has set."""
    last_addition: int = 0
    """Total episodes when actors were last added."""
    crossings: int = 0
    """Additions of scaling.form = "linear"."""
    first_length: float | None = None
    """Mean steps of the run's first episodes; None until there were enough."""
    best_return: float | None = None
    lowest_return: float | None = None
    evaluations: int = 0
    evaluation: EvaluationStatus | None = None
    """The last one."""
    best_evaluation: EvaluationStatus | None = None
    returns_to_best: int = 0
    """To the best checkpoint (checkpoint.return_to_best)."""
    learning_rate_factor: float = 1.0
    """On the learning rate, from these."""
    recent: list[Episode] = []
    """The last episodes, so that means go on where they stopped."""
    recent_sources: list[str] = []
    """Who played each of these, so that they are judged as before."""

    @property
    def last_step_frames(self) -> int:
        return self.frames if self.stepped_frames is None else self.stepped_frames


class RunStats:
    """Written by the core and its parts; read for status, metrics, limits and scaling."""

    def __init__(self, counters: Counters, settings: Settings, now: float) -> None:
        """`counters` of the checkpoint or fresh ones."""
        scaling, window, decision = settings.scaling, settings.limits.window, start(settings.scaling)
        counters.bounds = kept(counters.bounds, scaling)
        self.counters = counters
        self.state = "running"
        self.busy = Busy(WINDOW_SECONDS, now)
        goes_on = counters.wanted or counters.bounds is not None
        self.decision = replace(decision, wanted=counters.wanted) if goes_on else decision
        self.window = EpisodeWindow(
            window,
            episodes=counters.episodes - len(counters.recent),
            best_return=counters.best_return,
            lowest_return=counters.lowest_return,
        )
        sources = chain(counters.recent_sources, repeat(""))
        for episode, source in zip(counters.recent, sources, strict=False):
            self.window.add(episode, source)
        self._first = FirstEpisodes(
            max(window, FIRST_EPISODES * settings.environment.num_envs * max(1, scaling.minimum))
        )
        self._fleet = FleetMeter(scaling.interval_seconds)
        self._started = now
        self._player = ""
        """Who played last."""
        self._played = now if counters.actors_peak > 1 else -math.inf
        self._other_played = -math.inf
        """When another one did."""
        # A round that comes late makes nobody alone where no clock may decide.
        several = settings.reproducible and scaling.minimum > 1
        self._alone_seconds = math.inf if several else ALONE_SECONDS
        self._beside = False
        """Whether an actor has joined another one since the last contribution."""
        self._lag = LagMeter()
        self._losses = Smoothed()
        self.raw_losses: Mapping[str, float] = {}
        """The figures of the last loss, as they came."""
        self._frames = Rate(WINDOW_SECONDS, now)
        self._received = Rate(WINDOW_SECONDS, now)
        self._bytes = Rate(WINDOW_SECONDS, now)
        self.health: list[str] = []
        """What is wrong with the learning now."""
        self._not_finite = 0
        self.host = HostLook()
        """As it was looked at last."""
        self._warnings: deque[str] = deque(maxlen=WARNINGS)

    # -- events: each is booked once, here, for the run and for the peer -----------------------------------------------

    def joined(self, actors: int) -> None:
        self.counters.actors_peak = max(self.counters.actors_peak, actors)
        self._beside |= actors > 1

    def received(self, now: float, size: int) -> None:
        """A body of `size` bytes came, whatever becomes of it."""
        self.counters.gradient_bytes += size
        self._bytes.add(now, size)

    def played(self, now: float, peer: Peer, message: Contribution | Observe) -> None:
        """What an actor played was used: only then do its figures count.

        The steps of its finished episodes are at most those that it has played; an episode beyond, such as one that
        began before the learner knew it, is left out.
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
        """A message of one or several `rollouts` came whose weights are `lag` steps old."""
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
        """It sent something of another run or epoch."""
        peer.offences += 1
        self.counters.unknown += 1

    def duplicate(self) -> None:
        self.counters.duplicates += 1

    def applied(self, peer: Peer, statistics: Mapping[str, float]) -> None:
        """A contribution, or a rollout of a group, went into the weights; `statistics` of its loss if it had them."""
        peer.gradients += 1
        self.counters.gradients += 1
        self._lost(statistics)

    def stepped(self, statistics: Mapping[str, float], frames: int) -> None:
        """The weights changed, `frames` into the run; `statistics` of the loss where the learner computed it."""
        self.counters.version += 1
        self.counters.stepped_frames = frames
        if statistics:
            self._lost(statistics)

    def _lost(self, statistics: Mapping[str, float]) -> None:
        """The figures of a loss."""
        figures = known(statistics)
        self._losses.add(figures)
        self.raw_losses = figures or self.raw_losses

    def returned_to_best(self, factor: float) -> None:
        """Earlier weights are a new version; the learning rate is multiplied by `factor`."""
        self.counters.version += 1
        self.counters.returns_to_best += 1
        self.counters.learning_rate_factor *= factor

    def sent_weights(self, now: float, size: int) -> None:
        """`size` in bytes, all receivers together."""
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
        """Something went wrong and the run goes on; shown until newer warnings push it out."""
        if text not in self._warnings:
            self._warnings.append(text)

    def not_finite(self) -> None:
        """No gradient of a step was finite."""
        self._not_finite += 1

    def diagnosed(self, told: list[str]) -> list[str]:
        """What is wrong now, in words whose numbers change in brackets only; returns what was not before."""
        before = {text.partition("(")[0] for text in self.health}
        self.health = told
        return [text for text in told if text.partition("(")[0] not in before]

    # -- reports -------------------------------------------------------------------------------------------------------

    def seconds(self, now: float) -> float:
        """Since the run began, without the pauses between epochs."""
        return self.counters.seconds + now - self._started

    @property
    def score(self) -> float | None:
        """Mean return of the last episodes, as far as it is confirmed; None until the window is full."""
        return self.window.score

    def messages_per_second(self, now: float) -> float:
        """Contributions that came lately, from all actors."""
        return self._received.value(now)

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
        """For a decision; `actors` are those that have sent a message, `by_hand` those of them without a launcher."""
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
            frames=counters.frames,
            episodes=counters.episodes,
            applied=counters.gradients,
            unused=counters.stale + counters.refused,
            not_finite=self._not_finite,
        )

    def figures(self, now: float, *, whole_run: bool = False) -> dict[str, Any]:
        """By their names in RunStatus; with `whole_run` lag and busy are since the start instead of recent."""
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
            "learner_busy": self.busy.overall(now) if whole_run else self.busy.recent(now),
            "actors_wanted": self.decision.wanted,
            "why": self.decision.why,
            "losses": dict(self._losses.values),
            "health": self.health,
            "warnings": list(self._warnings),
        }


def _sources(peer: Peer, message: Contribution | Observe) -> Iterable[str]:
    """Who played each of the episodes."""
    if isinstance(message, Gradient) and message.summed:
        return [source_of(peer.hello.name, number) for number in message.players]
    return repeat(peer.hello.name)


def _players(peer: Peer, message: Contribution | Observe) -> Collection[str]:
    """Who has played, as far as a message tells: a relay names those who ended an episode."""
    if isinstance(message, Gradient) and message.summed:
        return list(dict.fromkeys(_sources(peer, message)))
    return [peer.hello.name]
