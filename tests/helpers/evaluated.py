"""A learner's core with an actor and an evaluator, whose messages are written by hand."""

from __future__ import annotations

from typing import Any

from common.rl.episode import Episode
from common.wire.messages import Evaluation, Pull, Weights
from learner.effects import Effect, SaveCheckpoint
from learner.run_stats import Counters
from tests.helpers.run import gradient_of, hello_of, learner_of, sent

EPISODES = 4
SETTINGS = (f"evaluation.episodes={EPISODES}", "evaluation.every_seconds=10", "checkpoint.every_seconds=100000")


class Run:
    """A learner with an actor `x` and, from the beginning, an evaluator `e`; its disk takes checkpoints at once."""

    def __init__(self, *assignments: str, **options: Any) -> None:
        self.core, self.noted = learner_of(*SETTINGS, *assignments, **options)
        self.now = 0.0
        self.saves: list[SaveCheckpoint] = []
        self._sequence = 0
        self._held: int | None = None
        """Version of the weights that the evaluator has."""
        self.join("x", role="actor")
        self.join("e")

    def join(self, name: str, role: Any = "evaluator") -> None:
        self.core.handle(self.now, name.encode(), hello_of(name, role), None)

    @property
    def counters(self) -> Counters:
        return self.core.run.stats.counters

    def learn(self, steps: int = 1, **fields: Any) -> int:
        """The version after so many more optimizer steps."""
        for _ in range(steps):
            self._sequence += 1
            header = gradient_of(self._sequence, self.counters.version, **fields)
            self.core.handle(self.now, b"x", header, b"gradient")
        return self.counters.version

    def tick(self, seconds: float = 0.0, *, disk: str = "") -> list[Effect]:
        """Time passes; `disk`: what it says to checkpoints."""
        self.now += seconds
        effects = self.core.tick(self.now)
        for effect in effects:
            if isinstance(effect, SaveCheckpoint):
                self.saves.append(effect)
                self.core.saved(self.now, effect.version, disk)
        return effects

    def pull(self, name: str = "e", version: int | None = None) -> list[Effect]:
        message = Pull(version=version or 0, whole=version is None)
        return self.core.handle(self.now, name.encode(), message, None)

    def report(self, of: int, *returns: float, name: str = "e", **changed: Any) -> list[Effect]:
        """EPISODES episodes of these returns, in turn."""
        episodes = [Episode(returns[number % len(returns)], 10, 0.0) for number in range(EPISODES)]
        fields = {"run": "a-run", "epoch": 1, "version": of, "episodes": episodes} | changed
        return self.core.handle(self.now, name.encode(), Evaluation(**fields), None)

    def given(self) -> int:
        """The version that the evaluator is given now."""
        self.pull(version=self._held)
        (weights,) = sent(self.tick(), Weights, b"e")
        self._held = weights.version
        return weights.version

    def evaluate(self, first: float, second: float | None = None) -> list[Effect]:
        """Newer weights, and what they return in an evaluation, and in the one that confirms it."""
        self.learn()
        self.now += 10.0
        version = self.given()
        effects = self.report(version, first)
        if second is not None:
            assert len(sent(self.pull(version=version), Weights)) == 1
            effects += self.report(version, second)
        return effects
