"""What the run has come to: counters that survive a restart, running measurements that do not, and reports of both."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import msgspec

from common.rl.algorithms.statistics import known
from common.rl.episode import Episode
from common.run.status import RunStatus
from common.settings.sections import Limits
from common.wire.messages import Contribution, Gradient, Observe
from learner.effects import Ending
from learner.meters import Busy, EpisodeWindow, LagMeter, Rate, Smoothed
from learner.peers import Peers
from learner.run_spec import Plan
from learner.scaling import Decision, Measurement

WINDOW_SECONDS = 5.0
"""Of the rates shown to people and given to the scaling policies."""
WARNINGS = 5


class Counters(msgspec.Struct, kw_only=True):
    """Kept in every checkpoint; over all epochs."""

    version: int = 0
    seconds: float = 0.0
    """Of the epochs before this one."""
    frames: int = 0
    emulator_frames: int = 0
    episodes: int = 0
    gradients: int = 0
    stale: int = 0
    refused: int = 0
    duplicates: int = 0
    gradient_bytes: int = 0
    weight_bytes: int = 0
    actors_peak: int = 0
    wanted: int = 0
    last_addition: int = 0
    """Total episodes when actors were last added."""
    best_return: float | None = None
    recent: list[Episode] = []
    """The last episodes, so that means go on where they stopped."""


class Ledger:
    """Fed by the core, read by status, metrics, limits and scaling."""

    def __init__(self, counters: Counters, window: int, decision: Decision, now: float) -> None:
        """`counters` of the checkpoint or fresh ones; `decision`: how many actors the run begins with."""
        self.counters = counters
        self.state = "running"
        self.busy = Busy(WINDOW_SECONDS, now)
        self.wanted, self.why = counters.wanted or decision.wanted, decision.why
        self.window = EpisodeWindow(
            window, episodes=counters.episodes - len(counters.recent), best_return=counters.best_return
        )
        self._recent: deque[Episode] = deque(maxlen=window)
        for episode in counters.recent:
            self._episode(episode)
        self._started = now
        self._lag = LagMeter()
        self._losses = Smoothed()
        self._frames, self._received = Rate(WINDOW_SECONDS, now), Rate(WINDOW_SECONDS, now)
        self._steps, self._bytes = Rate(WINDOW_SECONDS, now), Rate(WINDOW_SECONDS, now)
        self._warnings: deque[str] = deque(maxlen=WARNINGS)

    # -- events ---------------------------------------------------------------------------------------------------

    def joined(self, actors: int) -> None:
        """So many actors are in the run now."""
        self.counters.actors_peak = max(self.counters.actors_peak, actors)

    def received(self, now: float, header: Contribution, size: int, lag: int) -> None:
        """A gradient or trajectory that is no duplicate, whatever becomes of it: its frames were played."""
        self.played(now, header, size)
        self.lagged(now, lag)

    def played(self, now: float, header: Contribution | Observe, size: int) -> None:
        """Frames and episodes, whatever becomes of what was learnt from them; `size` bytes told of them."""
        counters = self.counters
        counters.frames += header.steps
        counters.emulator_frames += header.emulator_frames
        counters.gradient_bytes += size
        self._frames.add(now, header.steps)
        self._bytes.add(now, size)
        for episode in header.episodes:
            self._episode(episode)
        counters.episodes = self.window.episodes

    def lagged(self, now: float, lag: int) -> None:
        """A gradient, or a rollout, of weights that are `lag` steps old."""
        self._received.add(now)
        self._lag.add(max(0, lag))

    def applied(self, header: Contribution) -> None:
        """A gradient that went into the weights; of its statistics, those we know and that are numbers count."""
        self.counters.gradients += 1
        if isinstance(header, Gradient):
            self._learnt(header.statistics)

    def stepped(self, now: float, learnt: Mapping[str, float] | None = None) -> None:
        """The weights changed; `learnt`: the loss's statistics where the learner computed it."""
        self.counters.version += 1
        self._steps.add(now)
        self._learnt(learnt or {})

    def _learnt(self, given: Mapping[str, float]) -> None:
        self._losses.add(known(given))

    def sent(self, now: float, size: int) -> None:
        """Weights of `size` bytes went out, all receivers together."""
        self.counters.weight_bytes += size
        self._bytes.add(now, size)

    def decided(self, decision: Decision, last_addition: int) -> bool:
        """Takes a scaling decision in; whether it changes the number of actors."""
        changed = decision.wanted != self.wanted
        self.wanted, self.why = decision.wanted, decision.why
        self.counters.wanted, self.counters.last_addition = decision.wanted, last_addition
        return changed

    @property
    def held(self) -> bool:
        """Whether the last decision was held back by the load guard."""
        return self.why.startswith("held")

    def warn(self, text: str) -> None:
        """Something went wrong and was survived; shown until newer ones push it out."""
        if text not in self._warnings:
            self._warnings.append(text)

    # -- reports --------------------------------------------------------------------------------------------------

    def seconds(self, now: float) -> float:
        """Since the run began, the pauses between epochs left out."""
        return self.counters.seconds + now - self._started

    def saved(self, now: float) -> dict[str, Any]:
        """The counters as a checkpoint keeps them."""
        plain: dict[str, Any] = msgspec.to_builtins(self.counters)
        return {
            **plain,
            "seconds": self.seconds(now),
            "best_return": self.window.best_return,
            "recent": msgspec.to_builtins(list(self._recent)),
        }

    def measurement(self, now: float, actors: int) -> Measurement:
        """What the scaling policies look at."""
        return Measurement(
            now=now,
            actors=actors,
            wanted=self.wanted,
            episodes=self.counters.episodes,
            mean_episode_seconds=self.window.mean_seconds,
            learner_busy=self.busy.recent(now),
            lag_mean=self._lag.recent_mean,
            gradients_per_second=self._received.value(now),
            steps_per_second=self._steps.value(now),
        )

    def over(self, now: float, limits: Limits) -> tuple[Ending, str] | None:
        """Whether the run is over, and why."""
        mean = self.window.mean_return
        if limits.until_return is not None and self.window.full and mean is not None and mean >= limits.until_return:
            return "reached", f"mean return {mean:.1f} over {limits.window} episodes reached {limits.until_return:g}"
        for name, value, limit in (
            ("frames", self.counters.frames, limits.frames),
            ("episodes", self.counters.episodes, limits.episodes),
            ("seconds", self.seconds(now), limits.seconds),
        ):
            if limit and value >= limit:
                return "finished", f"{value:,.0f} of {limit:,.0f} {name}"
        return None

    def row(self, now: float, actors: int) -> dict[str, Any]:
        """One row of metrics."""
        counters = self.counters
        return {
            "seconds": self.seconds(now),
            "frames": counters.frames,
            "episodes": counters.episodes,
            "version": counters.version,
            "gradients": counters.gradients,
            "stale": counters.stale,
            "refused": counters.refused,
            "mean_return": self.window.mean_return,
            "episode_length": self.window.mean_length,
            "episode_seconds": self.window.mean_seconds,
            "frames_per_second": self._frames.value(now),
            "gradients_per_second": self._received.value(now),
            "bytes_per_second": self._bytes.value(now),
            "lag_mean": self._lag.recent_mean,
            "lag_p95": self._lag.recent_p95,
            "learner_busy": self.busy.recent(now),
            "actors": actors,
            "actors_wanted": self.wanted,
            "why": self.why,
            **self._losses.values,
        }

    def status(self, now: float, plan: Plan, peers: Peers, *, whole_run: bool = False) -> RunStatus:
        """Everything there is to see; `whole_run`: lag and busy since the start instead of lately."""
        counters, settings, limits = self.counters, plan.settings, plan.settings.limits
        seconds = self.seconds(now)
        actors = peers.role("actor")
        return RunStatus(
            run=plan.run,
            epoch=plan.epoch,
            time=plan.clock + now,
            versions=plan.versions,
            exchange=settings.exchange.kind,
            exchange_why=plan.exchange_why,
            state=self.state,
            env=settings.environment.id,
            algorithm=settings.algorithm.kind,
            network=plan.network,
            parameters=plan.parameters,
            seed=settings.seed,
            codec=", ".join(sorted({peer.codec for _, peer in actors})),
            device=plan.device,
            run_dir=plan.run_dir,
            seconds=seconds,
            frames=counters.frames,
            emulator_frames=counters.emulator_frames,
            episodes=counters.episodes,
            version=counters.version,
            gradients=counters.gradients,
            stale=counters.stale,
            refused=counters.refused,
            duplicates=counters.duplicates,
            gradient_bytes=counters.gradient_bytes,
            weight_bytes=counters.weight_bytes,
            mean_return=self.window.mean_return,
            best_return=self.window.best_return,
            episode_length=self.window.mean_length,
            episode_seconds=self.window.mean_seconds,
            frames_per_second=self._frames.value(now),
            gradients_per_second=self._received.value(now),
            bytes_per_second=self._bytes.value(now),
            lag_mean=self._lag.mean if whole_run else self._lag.recent_mean,
            lag_p95=self._lag.p95 if whole_run else self._lag.recent_p95,
            learner_busy=self.busy.overall(now) if whole_run else self.busy.recent(now),
            goal=limits.until_return,
            seconds_left=max(0.0, limits.seconds - seconds) if limits.seconds else None,
            frames_left=max(0, limits.frames - counters.frames) if limits.frames else None,
            episodes_left=max(0, limits.episodes - counters.episodes) if limits.episodes else None,
            reached=self.state == "reached",
            actors=len(actors),
            actors_wanted=self.wanted,
            actors_peak=counters.actors_peak,
            why=self.why,
            losses=dict(self._losses.values),
            warnings=list(self._warnings),
            peers=[peer.status(now) for _, peer in actors],
            fleets=[peer.fleet_status() for _, peer in peers.role("launcher")],
        )

    def _episode(self, episode: Episode) -> None:
        if self.window.add(episode):
            self._recent.append(episode)
