"""The last finished episodes and their mean return, which ends runs and chooses the best checkpoint.

Figures come from other hosts. With several actors, one of them must not decide alone: in the means, each figure counts
as at most the largest and at least the smallest that the others reported lately or have in the window, and the score is
at most what the others' own returns make likely. An actor that plays alone is believed. One that has left judges nobody
for long: its episodes are of worse weights than those that the others play with by then.
"""

import math
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import chain
from statistics import fmean

from common.rl.episode import Episode
from learner.bounded_dict import BoundedDict
from learner.meters import LARGEST_FIGURE

RECENT = 20
"""Episodes of each source by which the others are judged."""
ENOUGH = 5
"""Episodes of a source before others are judged by them; fewer in a smaller window."""
AWAY_SECONDS = 60.0
"""After which an actor that is not in the run is no source any more: restarts take less."""
SIGMAS = 3.0
"""Standard errors of the mean of those in the middle that the score may be above it."""
SOURCES = 256
"""Remembered: those that finished an episode last."""
REFRESHES = 100
"""Of the score in the time in which a window's length of episodes comes: it need not be of the very last one."""


@dataclass
class _Source:
    recent: deque[Episode] = field(default_factory=lambda: deque(maxlen=RECENT))
    seen: float | None = None
    """When it was in the run last; None: nobody has looked."""

    def newest_returns(self, count: int) -> list[float]:
        return [one.episode_return for one in self.recent][-count:]


def _mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """The mean of one value or more, and its standard error, which is 0 for one."""
    mean = math.fsum(values) / len(values)
    variance = math.fsum((one - mean) ** 2 for one in values) / max(1, len(values) - 1)
    return mean, math.sqrt(variance / len(values))


class EpisodeWindow:
    """The last `size` finished episodes of all sources, and the best and the lowest score that they ever had."""

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
        """Whether there is one source only, which is then believed."""
        self.kept: deque[Episode] = deque(maxlen=size)
        self._origins: deque[tuple[str, bool]] = deque(maxlen=size)
        """The source of each, and whether others could judge it when it came."""
        self._sources: BoundedDict[str, _Source] = BoundedDict(SOURCES)
        self._several = False
        """Whether there are sources enough to judge each other; found out again when one has left."""
        self._best = best_return
        self._lowest = lowest_return
        self._score: float | None = None
        self._unseen = 0
        """Episodes since the score was computed."""

    def add(self, episode: Episode, source: str = "") -> None:
        """Counts a finished episode, unless a figure is impossible (NaN for example)."""
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

    def look(self, now: float, present: Collection[str]) -> None:
        """Forgets the sources that have been away for long; `present`: names of the actors in the run."""
        for name, source in list(self._sources.items()):
            if name in present or source.seen is None:
                source.seen = now
            elif now - source.seen > AWAY_SECONDS:
                del self._sources[name]
                self._several = False

    @property
    def sources(self) -> Collection[str]:
        """By whose episodes the others are judged."""
        return self._sources.keys()

    @property
    def names(self) -> list[str]:
        """The source of each episode that is kept."""
        return [name for name, _ in self._origins]

    @property
    def full(self) -> bool:
        return len(self.kept) == self.size

    @property
    def mean_return(self) -> float | None:
        """Undiscounted; as the other means, None before the first episode."""
        return self._mean(lambda one: one.episode_return)

    @property
    def mean_length(self) -> float | None:
        """In agent steps."""
        return self._mean(lambda one: one.length)

    @property
    def mean_seconds(self) -> float | None:
        """Without any waiting between steps: see `Episode.seconds`."""
        return self._mean(lambda one: one.seconds)

    @property
    def score(self) -> float | None:
        """What ends runs: the mean return as far as others confirm it; None until the window is full and they do."""
        self._refresh()
        return self._score

    @property
    def best_return(self) -> float | None:
        """The best score ever."""
        self._refresh()
        return self._best

    @property
    def lowest_return(self) -> float | None:
        """The lowest score ever."""
        self._refresh()
        return self._lowest

    @property
    def return_error(self) -> float:
        """Standard error of `mean_return`; 0 of fewer than two episodes."""
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
        # No more of each than its part of the window: what many actors played before is of worse weights.
        part = max(self._enough, math.ceil(self.size / len(references)))
        ranked = sorted((source.newest_returns(part) for source in references), key=fmean)
        others = ranked[:-1]  # without the best source, which the others must confirm
        count = max(1, min(math.ceil(RECENT / part), len(others) // 4))
        middle = others[len(others) // 2 - count // 2 :][:count]  # low liars, fewer than half, hold nobody back
        likely, error = _mean_and_error(list(chain.from_iterable(middle)))
        return min(mean, likely + SIGMAS * error)

    def _references(self) -> dict[str, _Source]:
        """The sources by which others are judged."""
        return {name: source for name, source in self._sources.items() if len(source.recent) >= self._enough}

    @property
    def _enough(self) -> int:
        """Episodes of a source by which others are judged."""
        return min(ENOUGH, self.size)

    def _mean(self, figure: Callable[[Episode], float]) -> float | None:
        figures = self._clipped(figure)
        return math.fsum(figures) / len(figures) if figures else None

    def _clipped(self, figure: Callable[[Episode], float]) -> list[float]:
        """Of the window, each figure clipped to the range of the other sources' ones.

        Their recent ones alone would not do: where an agent learns fast, all of those are better than what the window
        still holds, which would count as much as they. For the same reason nobody raises what was there before him.
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
