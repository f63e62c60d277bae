"""Whether the run still learns, judged by its vital signs; with a memory, so that warnings do not flap.

A symptom is reported, with what to try, once it has lasted for HOLD_SECONDS, and until it has been absent for as long.
"""

from dataclasses import dataclass

HOLD_SECONDS = 60.0
FAR = 0.5
"""How far the mean return must be below its best to count as fallen: share of the way from its lowest to its best."""
GONE = 0.02
"""Share of the largest entropy so far below which the policy counts as having none left."""
CONSTANT = 1e-3
"""Explained variances nearer to 0 than this say that the values do not depend on what is observed. Of a network whose
relu units are dead they stay within 1e-5; one that learns is so near for seconds at most."""
UNUSED = 0.9
"""Share of the contributions that must be refused or too old for a warning."""
SIGMAS = 4.0
"""Standard errors by which the mean return must also be below its best: less may be chance, as early in a run."""
LEAST_SENT = 20
"""Contributions needed before the unused share means anything."""
NO_EPISODE_SECONDS = 600.0
FALLEN = "the mean return is far below its best"


@dataclass(frozen=True)
class VitalSigns:
    """The vital signs of a run at one time; counts are since its beginning."""

    mean_return: float | None
    best_return: float | None
    lowest_return: float | None
    """The lowest mean return so far."""
    return_error: float
    """Standard error of the mean return."""
    entropy: float | None
    explained_variance: float | None
    """Share of the variance of the returns that the values explain; None before the first loss."""
    frames: int
    episodes: int
    applied: int
    unused: int
    """Contributions that were stale or refused."""
    not_finite: int
    """Steps in which no gradient was finite."""


@dataclass
class _Symptom:
    since: float
    """Before it is reported: since when it has been present without a break. Afterwards: when it was last present."""
    told: bool = False


class Health:
    def __init__(self) -> None:
        self.fallen = False
        """Whether the mean return is far below its best now, and this is reported."""
        self._entropy = 0.0
        self._symptoms: dict[str, _Symptom] = {}
        self._looked: list[tuple[float, VitalSigns]] = []
        """The vital signs of the last HOLD_SECONDS, each with its time."""
        self._episode_at: float | None = None
        """When the last episode ended, or when actors began to play after a pause."""

    def diagnose(self, now: float, signs: VitalSigns) -> list[str]:
        """Return what is wrong, each with what to try; to be called once a second or more often."""
        before = self._looked[-1][1] if self._looked else signs
        self._looked.append((now, signs))
        while self._looked[0][0] < now - HOLD_SECONDS:
            self._looked.pop(0)
        if signs.episodes > before.episodes or signs.frames == self._looked[0][1].frames:
            self._episode_at = now
        if signs.entropy is not None:
            self._entropy = max(self._entropy, signs.entropy)
        seen = self._seen(now, signs)
        told = [text for text in self._remembered(now, seen) if text]
        self.fallen = FALLEN in seen and self._symptoms[FALLEN].told
        return told

    def _remembered(self, now: float, seen: dict[str, str]) -> list[str]:
        told = []
        for name in [*self._symptoms, *(name for name in seen if name not in self._symptoms)]:
            symptom = self._symptoms.setdefault(name, _Symptom(now))
            if name in seen and not symptom.told:
                symptom.told = now - symptom.since >= HOLD_SECONDS
            elif name in seen:
                symptom.since = now
            elif not symptom.told or now - symptom.since >= HOLD_SECONDS:
                del self._symptoms[name]
                continue
            if symptom.told:
                told.append(seen.get(name, name))
        return told

    def _seen(self, now: float, signs: VitalSigns) -> dict[str, str]:
        """Return the text to report for each present symptom, by the symptom's name."""
        first = self._looked[0][1]
        seen = {}
        worse = self._is_worse(signs)
        if worse:
            name = FALLEN
            numbers = f"{signs.mean_return:.4g}, it was {signs.best_return:.4g}"
            cure = "try a smaller optimizer.learning_rate; the best checkpoint is kept"
            seen[name] = f"{name} ({numbers}): {cure}"
        if worse and signs.entropy is not None and signs.entropy < GONE * self._entropy:
            name = "the policy has no entropy left"
            seen[name] = f"{name} ({signs.entropy:.2g}): it tries nothing new, try a larger algorithm.entropy_coef"
        if signs.explained_variance is not None and abs(signs.explained_variance) < CONSTANT:
            name = "the values are the same whatever is observed"
            cure = "its units may be dead; begin anew with a smaller optimizer.learning_rate or another optimizer.kind"
            seen[name] = (
                f"{name} (explained variance {signs.explained_variance:.1g}): the network learns nothing, {cure}"
            )
        if self._episode_at is not None and now - self._episode_at > NO_EPISODE_SECONDS and signs.frames > first.frames:
            name = "no episode has ended for long"
            cure = "if the environment has no end of its own, set environment.max_episode_steps"
            seen[name] = f"{name} ({now - self._episode_at:.0f} s): {cure}"
        unused, applied = signs.unused - first.unused, signs.applied - first.applied
        if unused + applied >= LEAST_SENT and unused >= UNUSED * (unused + applied):
            name = "hardly anything that actors send is used"
            cure = "see their errors, and the lag: fewer actors, or a larger staleness.refuse_factor"
            seen[name] = f"{name} ({unused} of {unused + applied} refused or too old in the last minute): {cure}"
        if signs.not_finite > first.not_finite:
            name = "the loss is not finite"
            seen[name] = f"{name}: try a smaller optimizer.learning_rate or algorithm.max_grad_norm"
        return seen

    def _is_worse(self, signs: VitalSigns) -> bool:
        mean, best, lowest = signs.mean_return, signs.best_return, signs.lowest_return
        if mean is None or best is None or lowest is None:
            return False
        return best > lowest and mean < best - max(FAR * (best - lowest), SIGMAS * signs.return_error)
