"""The body of a trajectory: rollouts of T steps, joined along the environments (B in all). Little-endian.

First a uint32, the number of restarts R. Then, through the entropy stage of the codec in the header (`none`,
`none+lz4`, `none+zstd`), without gaps:

| part | type | shape |
| --- | --- | --- |
| rewards, scaled and clipped for learning | float32 | T, B |
| log-probabilities of the actions under the policy that acted | float32 | T, B |
| a recurrent network's state before the first observations (where `network.lstm` is not 0) | float32 | B, 2 lstm |
| the first observations | as observed | B, observation |
| the newest frame of each later observation (`environment.frame_stack` 1: all of it) | as observed | T, B, frame |
| actions, of a Box before they are clipped | float32 (Box), else the smallest unsigned type | T, B, action |
| terminated; valid; restarts | bits from the highest on | T x B each, padded to bytes |
| the older frames of each restart | as observed | R, older |

As observed: float32, uint8 (pictures), or the smallest unsigned type (discrete). A restart is an observation whose
older frames are not those of the one before, since an episode began. Both ends know every size but R from the settings
and the spaces. A body of another length is refused, as is a number that is not finite or is beyond 1e16, and an
observation or action out of range.
"""

import math
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.errors import CodecError
from common.rl.action_spec import ActionSpec
from common.rl.frame_stack import FrameStack
from common.rl.observation_spec import ObservationSpec
from common.rl.rollout import Rollout, join
from common.settings.codec_names import PARTS
from common.settings.sections import Settings
from common.wire.bodies.observations import check_discrete, check_masked, packed_dtype, unstacked
from common.wire.codecs.buffers import nbytes
from common.wire.codecs.entropy import ENTROPY_STAGES
from common.wire.frames import Buffer

MAX_ABS_VALUE = 1e16
"""Largest magnitude of a number: the sum of the squares of many such numbers is still finite in float32."""
_HEAD = struct.Struct("<I")
Array = NDArray[Any]
Layout = dict[str, tuple[tuple[int, ...], np.dtype[Any]]]


class TrajectoryFormat:
    """Packs and reads the rollouts of a run."""

    def __init__(
        self, settings: Settings, observation: ObservationSpec, action: ActionSpec, state: int, *, stacks: bool = True
    ) -> None:
        """settings: resolved. state: the network's state_size.

        stacks: `unpack` joins the frames of pictures; else it returns `StackedFrames`, for the caller to join.
        """
        stack = max(1, settings.environment.frame_stack)
        self._steps = settings.algorithm.rollout_length
        self._num_envs = settings.environment.num_envs
        self._state = state
        self._observation = observation
        self._action = action
        shape = observation.shape
        self._frame = unstacked(observation, stack).shape
        self._older = () if stack == 1 else (shape[0] - self._frame[0], *shape[1:])
        self._stacked = stack > 1
        self._stacks = stacks or observation.kind != "pixels"
        self._frames = FrameStack(stack)
        self._observed = packed_dtype(observation)

    def max_bytes(self, count: int) -> int:
        """Return the length that no body of `count` rollouts exceeds."""
        raw = _size(self._layout(self._num_envs * count, self._most_restarts(count)))
        return _HEAD.size + max(stage(raw).max_bytes for stage in ENTROPY_STAGES.values())

    def pack(self, rollouts: Sequence[Rollout], codec: str) -> bytes:
        """Return the body of these rollouts; `codec` names the entropy stage."""
        rollout = join(rollouts)
        observations = rollout.observations
        restarts, older = self._restarts(observations)
        parts = {
            "rewards": rollout.rewards,
            "log_probs": rollout.behaviour_log_probs,
            "state": np.zeros(0) if rollout.state is None else rollout.state,
            "first": observations[0],
            "newest": observations[1:, :, -self._frame[0] :] if self._stacked else observations[1:],
            "actions": rollout.actions,
            "terminated": np.packbits(rollout.terminated),
            "valid": np.packbits(rollout.valid),
            "restarts": np.packbits(restarts),
            "older": older,
        }
        layout = self._layout(rollout.rewards.shape[1], len(older))
        raw = b"".join(np.ascontiguousarray(parts[name], dtype).tobytes() for name, (_, dtype) in layout.items())
        return _HEAD.pack(len(older)) + ENTROPY_STAGES[PARTS[codec][1]](len(raw)).compress(raw)

    def unpack(self, body: Buffer, codec: str, count: int) -> Rollout:
        """Return one rollout of all `count` in the body, copied; raises CodecError for a body of another run."""
        if not _HEAD.size <= nbytes(body) <= self.max_bytes(count):
            raise CodecError(f"{count} rollouts in {nbytes(body)} bytes, at most {self.max_bytes(count)} hold them")
        view = memoryview(body).cast("B")
        (number,) = _HEAD.unpack_from(view)
        if number > self._most_restarts(count):
            raise CodecError(f"{number} restarts, {count} rollouts have at most {self._most_restarts(count)}")
        layout = self._layout(self._num_envs * count, number)
        size = _size(layout)
        raw = ENTROPY_STAGES[PARTS[codec][1]](size).decompress(view[_HEAD.size :])
        if nbytes(raw) != size:
            raise CodecError(f"{count} rollouts in {nbytes(raw)} bytes, not {size}")
        parts: dict[str, Array] = {}
        offset = 0
        for name, (shape, dtype) in layout.items():
            parts[name] = np.frombuffer(raw, dtype, math.prod(shape), offset).reshape(shape)
            offset += parts[name].nbytes
        return self._rollout(parts, number)

    def _rollout(self, parts: dict[str, Array], number: int) -> Rollout:
        shape = parts["rewards"].shape
        terminated, valid, restarts = (
            np.unpackbits(parts[name], count=math.prod(shape)).view(np.bool_).reshape(shape)
            for name in ("terminated", "valid", "restarts")
        )
        if np.count_nonzero(restarts) != number:
            raise CodecError(f"the head states {number} restarts, {np.count_nonzero(restarts)} are marked")
        actions = parts["actions"]
        actions = _finite(actions, "an action") if self._action.kind == "box" else self._action.choices(actions)
        state = _finite(parts["state"], "a state")
        observations = self._stack(parts["first"], parts["newest"], restarts, parts["older"])
        return Rollout(
            observations=self._checked(observations),
            actions=actions,
            rewards=_finite(parts["rewards"], "a reward"),
            terminated=terminated,
            valid=valid,
            behaviour_log_probs=_finite(parts["log_probs"], "a log-probability"),
            state=state if self._state else None,
        )

    def _layout(self, num_envs: int, restarts: int) -> Layout:
        """Return shape and type of each part, in order."""
        floats = np.dtype("<f4")
        steps = (self._steps, num_envs)
        flags = ((-(-self._steps * num_envs // 8),), np.dtype(np.uint8))
        return {
            "rewards": (steps, floats),
            "log_probs": (steps, floats),
            "state": ((num_envs, self._state), floats),
            "first": ((num_envs, *self._observation.shape), self._observed),
            "newest": ((*steps, *self._frame), self._observed),
            "actions": ((*steps, *self._action.shape), self._action.packed),
            "terminated": flags,
            "valid": flags,
            "restarts": flags,
            "older": ((restarts, *self._older), self._observed),
        }

    def _most_restarts(self, count: int) -> int:
        return self._steps * self._num_envs * count if self._stacked else 0

    def _restarts(self, observations: Array) -> tuple[NDArray[np.bool_], Array]:
        """Return which steps (T, B) have other older frames than the step before them, and these frames (R, *older)."""
        if not self._stacked:
            return np.zeros(observations[1:].shape[:2], np.bool_), observations[:0, 0]
        frame = self._frame[0]
        older = observations[1:, :, :-frame]
        differs = (older != observations[:-1, :, frame:]).reshape(*older.shape[:2], -1).any(axis=2)
        return differs, older[differs]

    def _stack(self, first: Array, newest: Array, restarts: NDArray[np.bool_], older: Array) -> Any:
        if not self._stacked:
            return np.concatenate((first[np.newaxis], newest))
        if not self._stacks:
            return self._frames.unstacked(first, newest, restarts, older)
        observations: Array = np.empty((self._steps + 1, *first.shape), first.dtype)
        observations[0] = first
        frame, used = self._frame[0], 0
        for t, (new, begins) in enumerate(zip(newest, restarts, strict=True)):
            self._frames.push(observations[t + 1], observations[t], new)
            if begins.any():
                here = np.flatnonzero(begins)
                observations[t + 1, here, :-frame] = older[used : used + len(here)]
                used += len(here)
        return observations

    def _checked(self, observations: Any) -> Any:
        if self._observation.kind == "discrete":
            return check_discrete(observations, self._observation.size)
        if self._observation.kind == "pixels":
            return observations
        check_masked(observations, self._observation)
        return _finite(observations, "an observation")


def usable(rollout: Rollout) -> bool:
    """Return whether all numbers of a rollout are finite and within MAX_ABS_VALUE, as `unpack` demands."""
    every = (rollout.rewards, rollout.behaviour_log_probs, rollout.observations, rollout.actions, rollout.state)
    numbers = [one for one in every if one is not None and one.dtype.kind == "f"]
    return all(bool((np.abs(one) <= MAX_ABS_VALUE).all()) for one in numbers)


def _size(layout: Layout) -> int:
    return sum(math.prod(shape) * dtype.itemsize for shape, dtype in layout.values())


def _finite(values: Array, what: str) -> NDArray[np.float32]:
    """Return a copy in the machine's byte order; raises CodecError for numbers that are not finite or too large."""
    if not (np.abs(values) <= MAX_ABS_VALUE).all():
        raise CodecError(f"{what} that is not finite, or beyond {MAX_ABS_VALUE:g}")
    return values.astype(np.float32)
