"""The last finished episodes and their mean return, which ends runs and chooses the best checkpoint.

Figures come from other hosts. With several actors, no single one may decide alone. In the means, each figure is clipped
to the range of the figures that the other actors reported lately or have in the window; the score is at most what the
others' own returns make likely. An actor that plays alone is believed. After an actor has left, the others are not
judged by its episodes for long, since these were played with worse weights than the others soon have.
"""

import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from statistics import fmean

from common.rl.episode import Episode
from learner.bounded_dict import BoundedDict
from learner.meters import LARGEST_FIGURE

RECENT = 20
"""Most recent episodes of each source, by which the other sources are judged."""
ENOUGH = 5
"""Episodes that a source needs before others are judged by it; fewer in a smaller window."""
AWAY_SECONDS = 60.0
"""Seconds after which an absent actor no longer counts as a source; a restart takes less."""
SIGMAS = 3.0
"""How far the score may lie above the mean of the middle sources, in standard errors of that mean."""
SOURCES = 256
"""Most sources that are remembered: those that finished an episode last."""
REFRESHES = 100
"""How often the score is computed while a window's length of episodes arrives: it need not cover the very last ones."""


@dataclass
class _Source:
    recent: deque[Episode] = field(default_factory=lambda: deque(maxlen=RECENT))
    seen: float | None = None
    """When it was last found in the run; None: not looked for yet."""

    def newest_returns(self, count: int) -> list[float]:
        return [one.episode_return for one in self.recent][-count:]


def _mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean of one or more values, and its standard error, which is 0 for one value."""
    mean = math.fsum(values) / len(values)
    variance = math.fsum((one - mean) ** 2 for one in values) / max(1, len(values) - 1)
    return mean, math.sqrt(variance / len(values))


class EpisodeWindow:
    """The last `size` finished episodes of all sources, and the best and the lowest score that the window ever had."""

    def __init__(
        self,
        size: int,
        *,
        episodes: int = 0,
        best_return: float | None = None,
        lowest_return: float | None = None,
    ) -> None:
        """`episodes`, `best_return` and `lowest_return` are those of the run's earlier epochs."""
        self.size = size
        self.episodes = episodes
        self.alone = True
        """Whether there is only one source, which is then believed."""
        self.kept: deque[Episode] = deque(maxlen=size)
        self._origins: deque[tuple[str, bool]] = deque(maxlen=size)
        """For each kept episode: its source, and whether other sources could judge it when it arrived."""
        self._sources: BoundedDict[str, _Source] = BoundedDict(SOURCES)
        self._several = False
        """Whether there are enough sources to judge each other; determined anew after one has left."""
        self._best = best_return
        self._lowest = lowest_return
        self._score: float | None = None
        self._unseen = 0
        """Episodes since the score was computed."""

    def add(self, episode: Episode, source: str = "") -> None:
        """Count a finished episode, unless one of its figures is impossible (NaN, for example)."""
        usable = abs(episode.episode_return) <= LARGEST_FIGURE and 0.0 <= episode.seconds <= LARGEST_FIGURE
        if not usable or episode.length < 0:
            return
        self.episodes += 1
        self.kept.append(episode)
        self._several = self._several or len(self._references()) > 1
        self._origins.append((source, self._several and not self.alone))
        known = self._sources.get(source) or _Source()
        known.recent.append(episode)
        self._sources[source] = known
        self._unseen += 1

    def resume(self, episodes: Collection[Episode], sources: Iterable[str], score: float | None) -> None:
        """Take in the window of an earlier epoch, with the source of each episode, and the score it had.

        If the size is still the same, the score holds until more episodes arrive: it cannot be found again, since the
        other episodes of the sources, which confirmed it, are not kept.
        """
        for episode, source in zip(episodes, chain(sources, repeat("")), strict=False):
            self.add(episode, source)
        if len(episodes) == self.size and score is not None:
            self._score, self._unseen = score, 0

    def look(self, now: float, present: Collection[str]) -> None:
        """Forget the sources that have been absent for AWAY_SECONDS; `present`: names of the actors in the run."""
        for name, source in list(self._sources.items()):
            if name in present or source.seen is None:
                source.seen = now
            elif now - source.seen > AWAY_SECONDS:
                del self._sources[name]
                self._several = False

    @property
    def sources(self) -> Collection[str]:
        """Names of the remembered sources."""
        return self._sources.keys()

    @property
    def names(self) -> list[str]:
        """The source of each kept episode."""
        return [name for name, _ in self._origins]

    @property
    def full(self) -> bool:
        return len(self.kept) == self.size

    @property
    def mean_return(self) -> float | None:
        """Mean undiscounted return; None, as the other means, before the first episode."""
        return self._mean(lambda one: one.episode_return)

    @property
    def mean_length(self) -> float | None:
        """Mean length in agent steps."""
        return self._mean(lambda one: one.length)

    @property
    def mean_seconds(self) -> float | None:
        """Mean duration without any waiting between steps: see `Episode.seconds`."""
        return self._mean(lambda one: one.seconds)

    @property
    def score(self) -> float | None:
        """The mean return as far as other sources confirm it, which ends runs.

        None until the window is full and there are sources enough to confirm it.
        """
        self._refresh()
        return self._score

    @property
    def best_return(self) -> float | None:
        """The highest score so far, earlier epochs included."""
        self._refresh()
        return self._best

    @property
    def lowest_return(self) -> float | None:
        """The lowest score so far, earlier epochs included."""
        self._refresh()
        return self._lowest

    @property
    def return_error(self) -> float:
        """Standard error of `mean_return`; 0 for fewer than two episodes."""
        returns = self._clipped(lambda one: one.episode_return)
        return _mean_and_error(returns)[1] if returns else 0.0

    def _refresh(self) -> None:
        if self._unseen * REFRESHES < self.size and (self._score is not None or not self._unseen):
            return
        self._unseen = 0
        self._score = self._confirmed() if self.full else None
        if self._score is not None:
            self._best = self._score if self._best is None else max(self._best, self._score)
            self._lowest = self._score if self._lowest is None else min(self._lowest, self._score)

    def _confirmed(self) -> float | None:
        mean = self.mean_return
        if self.alone or mean is None:
            return mean
        references = self._references().values()
        if len(references) < 2:
            return None
        # Of each source, only as many episodes as its share of the window: earlier ones were played with worse weights.
        part = max(self._enough, math.ceil(self.size / len(references)))
        ranked = sorted((source.newest_returns(part) for source in references), key=fmean)
        others = ranked[:-1]  # without the best source, which the others must confirm
        count = max(1, min(math.ceil(RECENT / part), len(others) // 4))
        middle = others[len(others) // 2 - count // 2 :][:count]  # so that a minority of low figures holds nobody back
        likely, error = _mean_and_error(list(chain.from_iterable(middle)))
        return min(mean, likely + SIGMAS * error)

    def _references(self) -> dict[str, _Source]:
        """The sources with enough episodes that others are judged by them."""
        return {name: source for name, source in self._sources.items() if len(source.recent) >= self._enough}

    @property
    def _enough(self) -> int:
        """Episodes that a source needs before others are judged by it."""
        return min(ENOUGH, self.size)

    def _mean(self, figure: Callable[[Episode], float]) -> float | None:
        figures = self._clipped(figure)
        return math.fsum(figures) / len(figures) if figures else None

    def _clipped(self, figure: Callable[[Episode], float]) -> list[float]:
        """Return one figure of each episode in the window, clipped to the range of the other sources' figures.

        The range must include the others' episodes in the window. If an agent learns fast, all recent ones are better
        than what the window still holds, and these older episodes would be raised to the recent ones. For the same
        reason an episode that arrived before there were other sources is never raised.
        """
        figures = list(map(figure, self.kept))
        judges = {name: [figure(one) for one in source.recent] for name, source in self._references().items()}
        if self.alone or len(judges) < 2:
            return figures
        for (name, _), value in zip(self._origins, figures, strict=True):
            if name in judges:
                judges[name].append(value)
        lows = sorted((min(values), name) for name, values in judges.items())[:2]
        highs = sorted(((max(values), name) for name, values in judges.items()), reverse=True)[:2]

        def believed(name: str, judged: bool, value: float) -> float:
            value = min(value, highs[highs[0][1] == name][0])
            return max(value, lows[lows[0][1] == name][0]) if judged else value

        return [believed(*origin, value) for origin, value in zip(self._origins, figures, strict=True)]
