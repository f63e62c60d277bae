from __future__ import annotations

from typing import Any

import lz4.block
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from common.errors import CodecError
from common.rl.action_masks import masked
from common.rl.action_spec import ActionSpec, discrete
from common.rl.observation_spec import ObservationSpec
from common.wire.bodies.observations import ObservationCodec, StepBatch, group_seed, group_sizes, sampler, unstacked

SPECS = {
    "box": ObservationSpec((2, 3), "box", 6),
    "pixels": ObservationSpec((1, 8, 6), "pixels", 48),
    "discrete": ObservationSpec((), "discrete", 10),
    "masked": masked(ObservationSpec((), "discrete", 10), discrete(3)),
}
COUNT = 9
"""One more than the bits of a byte."""


def bodies_of(kind: str, count: int = COUNT, actions: int = 3) -> ObservationCodec:
    return ObservationCodec(SPECS[kind], discrete(actions), count)


def seen_of(kind: str, seed: int = 0, count: int = COUNT) -> StepBatch:
    rng, spec = np.random.default_rng(seed), SPECS[kind]
    shape = (count, *spec.shape)
    observations: NDArray[Any] = rng.integers(10, size=shape)
    if kind == "box":
        observations = rng.normal(size=shape).astype(np.float32)
    elif kind != "discrete":
        observations = observations.astype(spec.dtype)
    rewards = rng.normal(size=count).astype(np.float32)
    return StepBatch(observations, rewards, rng.random(count) < 0.5, rng.random(count) < 0.5)


def same(one: StepBatch, other: StepBatch) -> bool:
    pairs = zip(vars(one).values(), vars(other).values(), strict=True)
    return all(a.dtype == b.dtype and a.shape == b.shape and (a == b).all() for a, b in pairs)


@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize("count", [1, 8, 9])
def test_what_is_written_is_read(kind: str, count: int) -> None:
    bodies, seen = bodies_of(kind, count), seen_of(kind, count=count)
    body = bodies.pack_seen(seen, begins=False)
    assert len(body) <= bodies.max_bytes
    assert same(bodies.read_seen(body, begins=False), seen)


@pytest.mark.parametrize("kind", SPECS)
def test_a_group_that_begins_shows_its_observations_alone(kind: str) -> None:
    bodies, seen = bodies_of(kind), seen_of(kind)
    body = bodies.pack_seen(seen, begins=True)
    none = np.zeros(COUNT, np.bool_)
    assert same(
        bodies.read_seen(body, begins=True), StepBatch(seen.observations, np.zeros(COUNT, np.float32), none, none)
    )
    assert len(bodies.pack_seen(seen, begins=False)) - len(body) == 4 * COUNT + 2 * 2


@pytest.mark.parametrize(("values", "size"), [(256, 1), (257, 2), (70_000, 4)])
def test_discrete_observations_travel_in_the_smallest_type(values: int, size: int) -> None:
    bodies = ObservationCodec(ObservationSpec((), "discrete", values), discrete(2), 2)
    last = np.array([0, values - 1])
    body = bodies.pack_seen(StepBatch(last, np.zeros(2, np.float32), *[np.zeros(2, np.bool_)] * 2), begins=True)
    assert len(body) == 2 * size
    assert bodies.read_seen(body, begins=True).observations.tolist() == last.tolist()


def test_the_layout_of_an_observe() -> None:
    seen = StepBatch(
        np.array([[1.0], [2.0]], np.float32),
        np.array([0.5, -1.0], np.float32),
        np.array([False, True]),
        np.array([True, True]),
    )
    body = ObservationCodec(ObservationSpec((1,), "box", 1), discrete(2), 2).pack_seen(seen, begins=False)
    rewards, terminated, valid, observations = "0000003f 000080bf", "40", "c0", "0000803f 00000040"
    assert body == bytes.fromhex(rewards + terminated + valid + observations)


@given(body=st.binary(max_size=400), begins=st.booleans(), kind=st.sampled_from(list(SPECS)))
def test_hostile_bytes_are_refused_or_have_the_right_shapes(body: bytes, begins: bool, kind: str) -> None:
    try:
        seen = bodies_of(kind).read_seen(body, begins=begins)
    except CodecError:
        return
    assert seen.observations.shape == (COUNT, *SPECS[kind].shape)
    assert np.isfinite(seen.observations).all()
    assert np.isfinite(seen.rewards).all()


@given(
    seed=st.integers(0, 100), kind=st.sampled_from(list(SPECS)), where=st.floats(0, 1, exclude_max=True), to=st.binary()
)
def test_damaged_bytes_are_refused_or_have_the_right_shapes(seed: int, kind: str, where: float, to: bytes) -> None:
    bodies = bodies_of(kind)
    body = bytearray(bodies.pack_seen(seen_of(kind, seed), begins=False))
    at = int(where * len(body))
    body[at : at + 1] = to
    try:
        seen = bodies.read_seen(bytes(body), begins=False)
    except CodecError:
        return
    assert seen.observations.shape == (COUNT, *SPECS[kind].shape)


def test_a_block_that_claims_more_than_the_pictures_hold_makes_no_room_for_it() -> None:
    bomb = lz4.block.compress(bytes(50 * 2**20), store_size=False)
    with pytest.raises(CodecError, match="does not decompress"):
        bodies_of("pixels").read_seen(bomb, begins=True)


@pytest.mark.parametrize(
    ("kind", "value", "why"),
    [
        ("box", np.nan, "an observation that is no finite number"),
        ("box", np.inf, "an observation that is no finite number"),
        ("discrete", 10, r"not in 0\.\.9"),
        ("discrete", 255, r"not in 0\.\.9"),
    ],
)
def test_observations_that_no_environment_gives_are_refused(kind: str, value: float, why: str) -> None:
    bodies, seen = bodies_of(kind), seen_of(kind)
    seen.observations[COUNT - 1] = value
    with pytest.raises(CodecError, match=why):
        bodies.read_seen(bodies.pack_seen(seen, begins=True), begins=True)


def test_a_reward_that_is_no_number_is_refused() -> None:
    bodies, seen = bodies_of("box"), seen_of("box")
    seen.rewards[3] = np.nan
    with pytest.raises(CodecError, match="a reward that is no finite number"):
        bodies.read_seen(bodies.pack_seen(seen, begins=False), begins=False)


@pytest.mark.parametrize(("actions", "size"), [(2, 1), (256, 1), (257, 2), (65536, 2), (65537, 4)])
def test_actions_travel_in_the_smallest_type(actions: int, size: int) -> None:
    bodies = bodies_of("box", 2, actions)
    chosen = np.array([0, actions - 1])
    body = bodies.pack_actions(chosen)
    assert len(body) == 2 * size
    assert bodies.read_actions(body).tolist() == chosen.tolist()


SEVERAL = ActionSpec("multi-discrete", (3, 300, 2, 5), (2, 2))
NUMBERS = ActionSpec("box", shape=(3,), squashed=(False,) * 3)


def test_several_choices_and_numbers_travel_as_they_are() -> None:
    rng = np.random.default_rng(0)
    chosen = rng.integers(0, np.array(SEVERAL.sizes).reshape(2, 2), (COUNT, 2, 2))
    drawn = rng.standard_normal((COUNT, 3), np.float32)
    for action, actions, size in ((SEVERAL, chosen, 2), (NUMBERS, drawn, 4)):
        bodies = ObservationCodec(SPECS["box"], action, COUNT)
        body = bodies.pack_actions(actions)
        assert len(body) == size * actions.size
        read = bodies.read_actions(body)
        assert read.dtype == action.dtype
        assert (read == actions).all()


def test_a_choice_beyond_its_own_number_and_a_number_that_is_none_are_refused() -> None:
    chosen, drawn = np.zeros((COUNT, 2, 2), np.int64), np.zeros((COUNT, 3), np.float32)
    chosen[4, 1, 0], drawn[4, 1] = 2, np.nan
    with pytest.raises(CodecError, match="beyond the 3 x 300 x 2 x 5 there are"):
        bodies = ObservationCodec(SPECS["box"], SEVERAL, COUNT)
        bodies.read_actions(bodies.pack_actions(chosen))
    with pytest.raises(CodecError, match="an action that is no finite number"):
        bodies = ObservationCodec(SPECS["box"], NUMBERS, COUNT)
        bodies.read_actions(bodies.pack_actions(drawn))


@given(body=st.one_of(st.binary(max_size=40), st.binary(min_size=2 * 16, max_size=2 * 16)), several=st.booleans())
def test_hostile_choices_and_numbers_are_refused_or_can_be_taken(body: bytes, several: bool) -> None:
    action = SEVERAL if several else NUMBERS
    try:
        actions = ObservationCodec(SPECS["box"], action, 4).read_actions(body)
    except CodecError:
        return
    assert actions.shape == (4, *action.shape)
    assert np.isfinite(actions).all()
    if several:
        assert ((actions >= 0) & (actions < np.array(action.sizes).reshape(2, 2))).all()


@given(body=st.binary(max_size=20))
def test_hostile_actions_are_refused_or_can_be_taken(body: bytes) -> None:
    try:
        actions = bodies_of("box").read_actions(body)
    except CodecError:
        assert len(body) != COUNT or max(body) >= 3
        return
    assert actions.shape == (COUNT,)
    assert actions.max() < 3


@pytest.mark.parametrize(
    ("shape", "stack", "single"), [((4, 84, 84), 4, (1, 84, 84)), ((12,), 3, (4,)), ((4,), 4, (1,)), ((5,), 1, (5,))]
)
def test_one_of_the_stacked(shape: tuple[int, ...], stack: int, single: tuple[int, ...]) -> None:
    size = int(np.prod(shape))
    assert unstacked(ObservationSpec(shape, "box", size), stack) == ObservationSpec(single, "box", size // stack)


@pytest.mark.parametrize(
    ("copies", "groups", "sizes"), [(16, 2, [8, 8]), (5, 2, [3, 2]), (3, 3, [1, 1, 1]), (7, 1, [7])]
)
def test_copies_are_split_as_evenly_as_can_be(copies: int, groups: int, sizes: list[int]) -> None:
    assert group_sizes(copies, groups) == sizes


def test_each_group_of_each_actor_has_seeds_of_its_own() -> None:
    pairs = [(seed, group) for seed in range(20) for group in range(8)]
    assert len({group_seed(*pair) for pair in pairs}) == len(pairs)
    assert len({sampler(*pair, step).random() for pair in pairs for step in (0, 7)}) == 2 * len(pairs)


def test_a_discrete_observation_before_a_mask_is_in_its_range() -> None:
    bodies, seen = bodies_of("masked"), seen_of("masked")
    for wrong in (-1, 10):
        seen.observations[3, 0] = wrong
        with pytest.raises(CodecError, match=r"an observation that is not in 0\.\.9"):
            bodies.read_seen(bodies.pack_seen(seen, begins=True), begins=True)
