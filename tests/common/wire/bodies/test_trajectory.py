"""Rollouts to bodies and back, and hostile bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from common.errors import CodecError
from common.rl.action_masks import masked
from common.rl.action_spec import ActionSpec, discrete
from common.rl.frame_stack import StackedFrames
from common.rl.observation_spec import ObservationSpec
from common.rl.rollout import Rollout, join
from common.settings.codec_names import PARTS
from common.settings.sections import Algorithm, Environment, Settings
from common.wire.bodies.trajectory import MAX_ABS_VALUE, TrajectoryFormat, usable
from common.wire.codecs.entropy import ENTROPY_STAGES

FIELDS = ("observations", "actions", "rewards", "terminated", "valid", "behaviour_log_probs", "state")
CODECS = ("none", "none+lz4", "none+zstd")
SPECS = {
    "box": (ObservationSpec((3,), "box", 3), 1),
    "stacked box": (ObservationSpec((6,), "box", 6), 3),
    "masked": (masked(ObservationSpec((), "discrete", 256), discrete(4)), 1),
    "pixels": (ObservationSpec((4, 2, 3), "pixels", 24), 4),
    "discrete": (ObservationSpec((), "discrete", 500), 1),
}
ACTIONS = {
    "discrete": discrete(300),
    "multi-discrete": ActionSpec("multi-discrete", (3, 300, 2, 70_000, 5, 1), (2, 3)),
    "box": ActionSpec("box", shape=(2, 1), squashed=(True, False)),
}


def packing_of(
    spec: ObservationSpec, action: ActionSpec, *, steps: int, num_envs: int, stack: int, state: int = 0
) -> TrajectoryFormat:
    environment = Environment(num_envs=num_envs, frame_stack=stack)
    settings = Settings(algorithm=Algorithm(rollout_length=steps), environment=environment)
    return TrajectoryFormat(settings, spec, action, state)


def assert_same(ours: Rollout, expected: Rollout) -> None:
    for name in FIELDS:
        one, other = getattr(ours, name), getattr(expected, name)
        if one is None or other is None:
            assert one is other, name
            continue
        assert one.dtype == other.dtype, name
        assert np.array_equal(one, other), name


def random_rollout(
    spec: ObservationSpec,
    steps: int,
    num_envs: int,
    seed: int = 0,
    *,
    action: ActionSpec = ACTIONS["discrete"],
    state: int = 0,
) -> Rollout:
    rng = np.random.default_rng(seed)
    shape = (steps, num_envs)
    observations: Any = rng.integers(0, 256, (steps + 1, num_envs, *spec.shape))
    actions: Any = rng.standard_normal((*shape, *action.shape), np.float32)
    if action.kind != "box":
        actions = rng.integers(0, np.array(action.sizes).reshape(action.shape), actions.shape)
    return Rollout(
        observations=observations.astype(spec.dtype),
        actions=actions,
        rewards=rng.standard_normal(shape, np.float32),
        terminated=rng.random(shape) < 0.2,
        valid=rng.random(shape) < 0.8,
        behaviour_log_probs=-rng.random(shape, np.float32),
        state=rng.standard_normal((num_envs, state), np.float32) if state else None,
    )


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize(("acted", "state"), [("discrete", 0), ("multi-discrete", 4), ("box", 0), ("box", 6)])
def test_a_round_trip_changes_nothing(kind: str, acted: str, state: int, codec: str) -> None:
    (spec, stack), action = SPECS[kind], ACTIONS[acted]
    packing = packing_of(spec, action, steps=5, num_envs=3, stack=stack, state=state)
    rollouts = [random_rollout(spec, 5, 3, seed, action=action, state=state) for seed in range(3)]
    for count in (1, 3):
        body = packing.pack(rollouts[:count], codec)
        assert len(body) <= packing.max_bytes(count)
        assert_same(packing.unpack(body, codec, count), join(rollouts[:count]))


def stacked_rollout(spec: ObservationSpec, stack: int, steps: int, num_envs: int, seed: int) -> Rollout:
    """Observations as a frame stack gives them: an episode begins with its first frame, repeated."""
    rng = np.random.default_rng(seed)
    rollout = random_rollout(spec, steps, num_envs, seed)
    rows = spec.shape[0] // stack
    observations = rollout.observations
    for t in range(steps):
        observations[t + 1, :, :-rows] = observations[t, :, rows:]
        for begins in np.flatnonzero(rng.random(num_envs) < 0.1):
            first = observations[t + 1, begins, -rows:]
            observations[t + 1, begins] = np.concatenate([first] * stack)
    return rollout


@pytest.mark.parametrize("kind", SPECS)
def test_another_may_stack_the_frames_of_pictures(kind: str) -> None:
    spec, stack = SPECS[kind]
    settings = Settings(
        algorithm=Algorithm(rollout_length=9), environment=Environment(num_envs=4, frame_stack=max(1, stack))
    )
    here, elsewhere = (TrajectoryFormat(settings, spec, discrete(300), 0, stacks=stacks) for stacks in (True, False))
    rollout = stacked_rollout(spec, stack, 9, 4, 1) if stack > 1 else random_rollout(spec, 9, 4)
    body = here.pack([rollout], "none")
    found: Any = elsewhere.unpack(body, "none", 1).observations
    if kind != "pixels":
        assert np.array_equal(found, rollout.observations)
        return
    assert isinstance(found, StackedFrames)
    assert found.shape == rollout.observations.shape
    frames = np.concatenate([part.reshape(-1, *found.frame) for part in found.parts])
    assert np.array_equal(frames[found.index].reshape(found.shape), rollout.observations)


@pytest.mark.parametrize("kind", ["stacked box", "pixels"])
def test_frames_travel_once_and_are_stacked_again_over_the_ends_of_episodes(kind: str) -> None:
    spec, stack = SPECS[kind]
    packing = packing_of(spec, discrete(300), steps=40, num_envs=2, stack=stack)
    for seed in range(3):
        rollout = stacked_rollout(spec, stack, 40, 2, seed)
        body = packing.pack([rollout], "none")
        assert_same(packing.unpack(body, "none", 1), rollout)
        other = len(packing.pack([random_rollout(spec, 40, 2)], "none"))
        assert len(body) < 0.75 * other


@given(
    kind=st.sampled_from(sorted(SPECS)),
    acted=st.sampled_from(sorted(ACTIONS)),
    state=st.sampled_from([0, 4]),
    codec=st.sampled_from(CODECS),
    count=st.integers(1, 2),
    body=st.binary(max_size=600),
    cut=st.one_of(st.none(), st.integers(0, 400)),
    flips=st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 255)), max_size=6),
)
@examples(max_examples=100, deadline=None)
def test_hostile_bytes_are_refused_or_are_a_rollout_of_the_run(
    kind: str,
    acted: str,
    state: int,
    codec: str,
    count: int,
    body: bytes,
    cut: int | None,
    flips: list[tuple[int, int]],
) -> None:
    (spec, stack), action = SPECS[kind], ACTIONS[acted]
    packing = packing_of(spec, action, steps=2, num_envs=2, stack=stack, state=state)
    if cut is not None:  # what was a good body once
        good = bytearray(packing.pack([random_rollout(spec, 2, 2, action=action, state=state)] * count, codec))
        for place, bits in flips:
            good[place % len(good)] ^= bits
        body = bytes(good[: len(good) - cut] if cut else good)
    try:
        rollout = packing.unpack(body, codec, count)
    except CodecError:
        return
    assert rollout.actions.shape == (2, 2 * count, *action.shape)
    if action.kind == "box":
        assert (np.abs(rollout.actions) <= MAX_ABS_VALUE).all()
    else:
        choices = np.array(action.sizes).reshape(action.shape)
        assert ((rollout.actions >= 0) & (rollout.actions < choices)).all()
    assert (rollout.state is not None) == bool(state)
    if rollout.state is not None:
        assert rollout.state.shape == (2 * count, state)
        assert (np.abs(rollout.state) <= MAX_ABS_VALUE).all()
    assert np.isfinite(rollout.rewards).all()
    assert np.isfinite(rollout.behaviour_log_probs).all()
    assert rollout.observations.dtype == spec.dtype
    assert np.isfinite(rollout.observations).all()
    if kind == "discrete":
        assert int(rollout.observations.max()) < spec.size


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("rewards", float("nan"), "a reward that is not finite"),
        ("rewards", 1e17, "a reward that is not finite, or beyond 1e"),
        ("behaviour_log_probs", float("-inf"), "a log-probability that is not finite"),
        ("observations", float("inf"), "an observation that is not finite"),
        ("actions", 300, "an action beyond the 300 there are"),
    ],
)
def test_what_would_spoil_the_weights_is_refused(field: str, value: float, problem: str) -> None:
    spec, stack = SPECS["box"]
    packing = packing_of(spec, discrete(300), steps=2, num_envs=2, stack=stack)
    rollout = random_rollout(spec, 2, 2)
    assert usable(rollout)
    getattr(rollout, field)[1, 1] = value
    assert usable(rollout) == (field == "actions")
    with pytest.raises(CodecError, match=problem):
        packing.unpack(packing.pack([rollout], "none"), "none", 1)


@pytest.mark.parametrize(
    ("acted", "field", "value", "problem"),
    [
        ("box", "actions", float("nan"), "an action that is not finite"),
        ("box", "actions", -1e17, "an action that is not finite, or beyond 1e"),
        ("box", "state", float("inf"), "a state that is not finite"),
        ("box", "state", 1e17, "a state that is not finite, or beyond 1e"),
        ("multi-discrete", "actions", 3, "an action beyond the 3 x 300 x 2 x 70000 x 5 x 1 there are"),
    ],
)
def test_nor_such_numbers_of_a_box_of_a_state_or_of_one_of_several_choices(
    acted: str, field: str, value: float, problem: str
) -> None:
    (spec, stack), action = SPECS["box"], ACTIONS[acted]
    packing = packing_of(spec, action, steps=2, num_envs=2, stack=stack, state=4)
    rollout = random_rollout(spec, 2, 2, action=action, state=4)
    assert usable(rollout)
    getattr(rollout, field)[1, 1, ...].flat[0] = value
    assert usable(rollout) == (acted != "box")
    with pytest.raises(CodecError, match=problem):
        packing.unpack(packing.pack([rollout], "none"), "none", 1)


def test_the_reader_makes_room_for_what_the_run_can_send_and_no_more() -> None:
    spec, stack = SPECS["pixels"]
    packing = packing_of(spec, discrete(3), steps=2, num_envs=2, stack=stack)
    body = bytearray(packing.pack([random_rollout(spec, 2, 2)], "none"))
    body[:4] = (2**32 - 1).to_bytes(4, "little")
    with pytest.raises(CodecError, match="4294967295 restarts, 1 rollouts have at most 4"):
        packing.unpack(bytes(body), "none", 1)
    with pytest.raises(CodecError, match="at most"):
        packing.unpack(bytes(packing.max_bytes(1) + 1), "none", 1)
    with pytest.raises(CodecError, match="2 rollouts in"):
        packing.unpack(packing.pack([random_rollout(spec, 2, 2)], "none"), "none", 2)


def test_restarts_that_are_told_must_be_those_that_are_marked() -> None:
    spec, stack = SPECS["pixels"]
    packing = packing_of(spec, discrete(300), steps=2, num_envs=2, stack=stack)
    body = packing.pack([random_rollout(spec, 2, 2)], "none")
    assert body[:4] == b"\x04\0\0\0"
    older = 3 * 2 * 3
    with pytest.raises(CodecError, match="the head states 3 restarts, 4 are marked"):
        packing.unpack(b"\x03\0\0\0" + body[4:-older], "none", 1)


def test_every_codec_of_trajectories_is_known() -> None:
    assert [PARTS[codec] for codec in CODECS] == [("none", stage) for stage in ENTROPY_STAGES]


@pytest.mark.parametrize("wrong", [-1.0, 256.0, 255.5, 1e9])
def test_a_discrete_observation_before_a_mask_is_in_its_range(wrong: float) -> None:
    spec, stack = SPECS["masked"]
    packing = packing_of(spec, ACTIONS["discrete"], steps=5, num_envs=3, stack=stack)
    rollout = random_rollout(spec, 5, 3)
    packing.unpack(packing.pack([rollout], "none"), "none", 1)
    rollout.observations[2, 1, 0] = wrong
    with pytest.raises(CodecError, match=r"an observation that is not in 0\.\.255"):
        packing.unpack(packing.pack([rollout], "none"), "none", 1)
