"""A player that only plays: the core may call all else of it."""

from __future__ import annotations

import pytest

from actor.players.base import Player
from tests.helpers.run import welcome_of


def test_what_a_player_need_not_do() -> None:
    player = Player()
    player.handle(welcome_of(), None)
    player.answered(1, dropped=False)
    player.restart()
    player.forget()
    assert player.ready and player.pending == 0
    assert player.load(3, b"weights"), "a player without a network has no use for a keyframe"


def test_what_each_player_must_do() -> None:
    player = Player()
    for do in (lambda: player.advance(0.0), lambda: player.pack(1), player.close):
        with pytest.raises(NotImplementedError):
            do()
