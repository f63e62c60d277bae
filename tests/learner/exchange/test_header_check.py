from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.errors import CodecError
from common.rl.episode import Episode
from common.settings.exchanges import MOST_SUMMED
from common.wire.messages import Gradient
from learner.exchange.header_check import HeaderCheck, check_episode
from learner.meters import Rate
from learner.peer import Peer
from tests.helpers.examples import examples
from tests.helpers.run import CODEC, gradient_of, hello_of, settings_of, spec_of


def checked(*assignments: str, longest: int = 0, peer: Peer | None = None, **changed: Any) -> Peer:
    peer = peer or Peer(hello_of(), 0.0, Rate(5.0, 0.0), codec=CODEC)
    spec = spec_of(settings_of(*assignments), longest=longest)
    HeaderCheck(spec, Gradient, "gradients").check(peer, gradient_of(**changed), 0)
    return peer


@settings(max_examples=examples(60))
@given(
    count=st.integers(1, 4),
    num_envs=st.integers(1, 64),
    rollout_length=st.integers(1, 200),
    skip=st.integers(1, 8),
    share=st.floats(0.0, 1.0),
    lengths=st.lists(st.integers(1, 500), max_size=40),
)
def test_all_that_an_actor_can_have_played_is_taken(
    count: int, num_envs: int, rollout_length: int, skip: int, share: float, lengths: list[int]
) -> None:
    steps = int(share * count * num_envs * rollout_length)
    peer = checked(
        f"environment.num_envs={num_envs}",
        f"algorithm.rollout_length={rollout_length}",
        f"environment.frame_skip={skip}",
        longest=500,
        count=count,
        steps=steps,
        emulator_frames=steps * skip,
        episodes=[(1e9, length, 0.0) for length in lengths[:steps]],
    )
    assert peer.claimed_steps == steps


def test_steps_that_were_refused_for_another_reason_were_played_all_the_same() -> None:
    peer = checked()
    with pytest.raises(CodecError, match="0 steps"):
        checked(peer=peer, episodes=[(0.0, 0, 0.1)])
    assert peer.claimed_steps == 40
    with pytest.raises(CodecError, match="at most 320"):
        checked(peer=peer, steps=321)
    assert peer.claimed_steps == 40


def test_whole_episodes_are_no_longer_than_the_environment_s() -> None:
    whole = ("algorithm.whole_episodes=true", "environment.num_envs=1")
    assert checked(*whole, steps=10**6).claimed_steps == 10**6
    with pytest.raises(CodecError, match="of 1000000 steps, 2 rollouts have at most 1000"):
        checked(*whole, steps=10**6, count=2, longest=500)


def test_an_episode_of_unknown_limit_may_be_of_any_length() -> None:
    check_episode(Episode(1.0, 10**9, 1.0), 0)
    with pytest.raises(CodecError, match="the environment ends them after 500: is it the same on both hosts"):
        check_episode(Episode(1.0, 10**9, 1.0), 500)


def relay() -> Peer:
    return Peer(hello_of("site", "relay"), 0.0, Rate(5.0, 0.0), codec=CODEC)


def test_a_relay_s_sum_may_be_of_more_rollouts_than_an_actor_s_gradient() -> None:
    fields: dict[str, Any] = {"summed": True, "episodes": [(1.0, 5, 0.1)] * 2, "players": [3, 0]}
    assert checked(peer=relay(), count=MOST_SUMMED, steps=MOST_SUMMED * 40, **fields).claimed_steps == 640
    with pytest.raises(CodecError, match=f"at most {MOST_SUMMED} are added up"):
        checked(peer=relay(), count=MOST_SUMMED + 1, **fields)
    long = f"exchange.accumulate={MOST_SUMMED + 4}"
    checked(long, peer=relay(), count=MOST_SUMMED + 4, **fields)
    with pytest.raises(CodecError, match="at most 4 are added up"):
        checked(count=5)


@pytest.mark.parametrize(
    ("peer", "changed", "why"),
    [
        (None, {"summed": True}, "the sum of others' gradients, of an actor"),
        (None, {"players": [1], "episodes": [(1.0, 5, 0.1)]}, "1 episodes of 1 players"),
        (relay(), {}, "no sum, of a relay"),
        (relay(), {"summed": True, "episodes": [(1.0, 5, 0.1)]}, "1 episodes of 0 players"),
        (relay(), {"summed": True, "players": [1]}, "0 episodes of 1 players"),
    ],
)
def test_only_a_relay_sends_sums_and_says_who_played(peer: Peer | None, changed: dict[str, Any], why: str) -> None:
    with pytest.raises(CodecError, match=why):
        checked(peer=peer, **changed)
