"""Watch a trained agent in a window.

The window is a3cd's own and shows the pictures that the environment draws: environments' own windows ignore the close
button, and environments observed as frames open none.
"""

import itertools
import os
from contextlib import ExitStack, closing
from types import ModuleType
from typing import Any

import numpy as np

from actor.agent import EPISODE_STEPS
from actor.agent.rendering import Picture, natural_rate, pictures
from actor.agent.trained_agent import TrainedAgent, Which, open_run
from common.errors import ConfigurationError, UnavailableError
from common.rl.environments.quiet import quiet
from common.rl.seeds import held_out_seeds

MIN_HEIGHT = 480
"""Least height of the window, in pixels; smaller pictures are enlarged by a whole factor."""


def play(
    run: str | os.PathLike[str],
    *,
    episodes: int = 0,
    sampled: bool | None = None,
    seed: int = 0,
    max_steps: int = EPISODE_STEPS,
    checkpoint: Which = "best",
) -> list[float]:
    """Show a run's agent at play until the window is closed (or Escape or Q pressed), or for `episodes` episodes.

    `run`, `checkpoint` and `sampled` as for `evaluate`. Returns the return of each episode that was played to its end.
    Raises ConfigurationError (no run, no such environment, pygame is missing), UnavailableError (no display, or the
    environment fails).
    """
    trained = open_run(run, checkpoint)
    section = trained.settings.environment
    rate = natural_rate(section)
    seeds = held_out_seeds("report", seed)
    pygame = _pygame()
    returns: list[float] = []
    with ExitStack() as stack:
        stack.callback(pygame.quit)
        # Open the display first: once the environment is made, SDL can no longer use the screen.
        window = _Window(pygame, section.id, rate)
        agent = TrainedAgent(trained, num_envs=1, seed=next(seeds), sampled=sampled, render_mode="rgb_array")
        stack.enter_context(closing(agent))
        for episode in itertools.count() if episodes == 0 else range(episodes):
            for picture in pictures(agent, max_steps=max_steps, seed=next(seeds)):
                window.show(picture, episode)
                if window.closed():
                    return returns
            returns.append(picture.episode_return)
    return returns


class _Window:
    def __init__(self, pygame: ModuleType, title: str, rate: float) -> None:
        self._pygame = pygame
        self._title = title
        self._rate = rate
        self._screen: Any = None
        try:
            pygame.display.init()
        except pygame.error as error:
            raise UnavailableError(f"no window can be opened here ({error}); `a3cd record` makes a film") from error
        if pygame.display.get_driver() == "offscreen":  # what SDL falls back to where there is no display
            raise UnavailableError("there is no display here; `a3cd record` makes a film")
        self._clock = pygame.time.Clock()

    def show(self, picture: Picture, episode: int) -> None:
        pygame = self._pygame
        height, width = picture.pixels.shape[:2]
        factor = max(1, -(-MIN_HEIGHT // height))
        if self._screen is None:
            self._screen = pygame.display.set_mode((factor * width, factor * height))
        surface = pygame.surfarray.make_surface(np.swapaxes(picture.pixels, 0, 1))
        pygame.transform.scale(surface, self._screen.get_size(), self._screen)
        pygame.display.set_caption(f"{self._title}: episode {episode + 1}, return {picture.episode_return:g}")
        pygame.display.flip()
        self._clock.tick(self._rate)

    def closed(self) -> bool:
        """Whether the window was closed, or Escape or Q pressed."""
        pygame = self._pygame
        events = pygame.event.get()
        pressed = {event.key for event in events if event.type == pygame.KEYDOWN}
        closed = any(event.type == pygame.QUIT for event in events)
        return closed or not pressed.isdisjoint((pygame.K_ESCAPE, pygame.K_q))


def _pygame() -> ModuleType:
    try:
        with quiet():
            import pygame
    except ImportError as error:
        raise ConfigurationError("a window needs pygame: pip install 'a3cd[window]'") from error
    return pygame
