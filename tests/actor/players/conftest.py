from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import actor.players.rollouts
from common.rl.networks.flat import FlatParameters
from common.rl.networks.model import build
from common.wire.codecs.registry import make as make_codec
from tests.helpers.environments import Scripted
from tests.helpers.run import settings_of, welcome_of

SMALL = ("network.hidden=[4]", "algorithm.rollout_length=6", "environment.num_envs=2")
Make = Callable[..., Any]


def flat_of() -> FlatParameters:
    return build(settings_of(*SMALL), Scripted.observation, Scripted.action).flat


@pytest.fixture
def environments(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    """What every player of the test plays."""
    scripted = Scripted((3, 5), rewards=(1.0, 2.0, 4.0, 8.0, 16.0))
    monkeypatch.setattr(actor.players.rollouts, "make_environments", lambda section, **kwargs: scripted)
    return scripted


@pytest.fixture
def make() -> Make:
    """`make(kind, *assignments, body=..., **welcome)` builds a player, or its rollouts, for a small network."""

    def one(kind: Any, *assignments: str, body: bytes | None = None, **welcome: Any) -> Any:
        flat = flat_of()
        fields = {"model": flat.hash, "version": 10, "seed": 5} | welcome
        own = make_codec("none", flat.size).encode(flat.vector.numpy())
        return kind(welcome_of(**fields), settings_of(*SMALL, *assignments), body or own)

    return one


@pytest.fixture
def weights() -> Callable[[float], bytes]:
    """A body of weights that are all the same."""
    size = flat_of().size
    codec = make_codec("none", size)
    return lambda value: codec.encode(np.full(size, value, np.float32))
