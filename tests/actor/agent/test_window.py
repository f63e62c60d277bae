from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actor.agent.window import play
from common.errors import ConfigurationError, UnavailableError

MakeRun = Callable[..., Path]
pygame = pytest.importorskip("pygame")


@pytest.fixture(autouse=True)
def no_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Sizes of the windows that are opened."""
    opened: list[tuple[int, int]] = []
    genuine = pygame.display.set_mode

    def set_mode(size: tuple[int, int]) -> Any:
        opened.append(size)
        return genuine(size)

    monkeypatch.setattr(pygame.display, "set_mode", set_mode)
    return opened


def test_episodes(trained_run: MakeRun, sizes: list[tuple[int, int]]) -> None:
    returns = play(trained_run(), episodes=2, max_steps=5)
    assert returns == [5.0, 5.0]
    assert sizes == [(1200, 800)]
    assert not pygame.display.get_init()


@pytest.mark.parametrize(
    "event",
    [
        pygame.event.Event(pygame.QUIT),
        pygame.event.Event(pygame.KEYDOWN, key=pygame.K_ESCAPE),
        pygame.event.Event(pygame.KEYDOWN, key=pygame.K_q),
    ],
    ids=["closed", "escape", "q"],
)
def test_until_closed(trained_run: MakeRun, monkeypatch: pytest.MonkeyPatch, event: Any) -> None:
    """Closed in the third episode: other keys do nothing, and the episode that was not finished does not count."""
    captions = []

    def set_caption(text: str) -> None:
        captions.append(text)
        pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=pygame.K_SPACE))
        if text == "CartPole-v1: episode 3, return 2":
            pygame.event.post(event)

    monkeypatch.setattr(pygame.display, "set_caption", set_caption)
    assert play(trained_run(), max_steps=4) == [4.0, 4.0]
    assert len(captions) == 13


def test_small_pictures_are_enlarged(trained_run: MakeRun, sizes: list[tuple[int, int]]) -> None:
    pytest.importorskip("ale_py")
    assert play(trained_run("environment.id=ALE/Pong-v5"), episodes=1, max_steps=2) == [0.0]
    assert sizes == [(504, 504)]


def test_no_display(trained_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "nonexistent")
    with pytest.raises(UnavailableError, match=r"no window can be opened here \(.*\); `a3cd record` makes a film"):
        play(trained_run())


def test_a_driver_without_a_screen(trained_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pygame.display, "get_driver", lambda: "offscreen")
    with pytest.raises(UnavailableError, match="there is no display here; `a3cd record` makes a film"):
        play(trained_run())
    assert not pygame.display.get_init()


def test_without_pygame_the_extra_is_named(trained_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygame", None)
    path = trained_run()
    with pytest.raises(ConfigurationError, match=re.escape("a window needs pygame: pip install 'a3cd[window]'")):
        play(path)
