"""The bodies of `observe` and `act`, for a group of B environments. Little-endian, bits from the highest on.

| body | part | type | shape |
| --- | --- | --- | --- |
| observe, unless `begins` | rewards of the last step | float32 | B |
| | terminated | bits, padded to bytes | B |
| | valid: the step was more than a reset | bits, padded to bytes | B |
| observe | observations; of a stack only the newest frame | as observed | B, observation |
| act | actions | float32 (Box), else the smallest unsigned type that holds all choices | B, action |

As observed: float32, the smallest unsigned type (discrete), or uint8 as one LZ4 block (pictures).
Both ends know every length from the settings and the spaces; no size is read from a body. A body of another length is
refused, as is a number that is not finite, and an observation or action out of range.
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.errors import CodecError
from common.rl.action_spec import ActionSpec, narrow
from common.rl.observation_spec import ObservationSpec
from common.wire.codecs.entropy import EntropyStage, Lz4Stage, NoStage
from common.wire.frames import Buffer


@dataclass(frozen=True, eq=False)
class StepBatch:
    """The result of one step of a group, arrays (B,) unless said otherwise. Rewards and flags are 0 if it begins."""

    observations: NDArray[Any]
    """(B, *shape): the observations after the step."""
    rewards: NDArray[np.float32]
    """As the environment gave them, not scaled."""
    terminated: NDArray[np.bool_]
    valid: NDArray[np.bool_]
    """False where the step only reset the environment."""


class ObservationCodec:
    """Packs and reads both bodies, for groups of `count` environments; `observation`: spec of one frame of a stack."""

    def __init__(self, observation: ObservationSpec, action: ActionSpec, count: int) -> None:
        self._count = count
        self._spec = observation
        self._action = action
        self._dtype = packed_dtype(observation)
        self._shape = (count, *observation.shape)
        size = math.prod(self._shape) * self._dtype.itemsize
        self._stage: EntropyStage = Lz4Stage(size) if observation.kind == "pixels" else NoStage(size)
        self._bits = -(-count // 8)
        self._head = 4 * count + 2 * self._bits
        self.max_bytes = self._head + self._stage.max_bytes
        """Length that no body exceeds."""

    def pack_seen(self, seen: StepBatch, *, begins: bool) -> bytes:
        """Return the body of an `observe`."""
        packed = self._stage.compress(np.ascontiguousarray(seen.observations, self._dtype).tobytes())
        if begins:
            return packed
        rewards = seen.rewards.astype("<f4", copy=False).tobytes()
        return b"".join([rewards, *(np.packbits(flags).tobytes() for flags in (seen.terminated, seen.valid)), packed])

    def read_seen(self, body: Buffer, *, begins: bool) -> StepBatch:
        """Return the batch in the body of an `observe`; raises CodecError for a wrong length or impossible values."""
        count = self._count
        view = memoryview(body).cast("B")
        rewards = np.zeros(count, np.float32)
        terminated = np.zeros(count, np.bool_)
        valid = np.zeros(count, np.bool_)
        if not begins:
            if len(view) < self._head:
                raise CodecError(f"observations of {len(view)} bytes, at least {self._head} were expected")
            rewards = np.frombuffer(view, "<f4", count)
            terminated = self._read_flags(view[4 * count :])
            valid = self._read_flags(view[4 * count + self._bits :])
            view = view[self._head :]
        raw = self._stage.decompress(view)
        if len(raw) != self._stage.raw_bytes:
            raise CodecError(f"observations of {len(raw)} bytes, {self._stage.raw_bytes} were expected")
        if not np.isfinite(rewards).all():
            raise CodecError("a reward that is no finite number")
        observations: NDArray[Any] = np.frombuffer(raw, self._dtype).reshape(self._shape)
        if self._spec.kind == "discrete":
            observations = check_discrete(observations, self._spec.size)
        elif self._spec.kind == "box":
            if not np.isfinite(observations).all():
                raise CodecError("an observation that is no finite number")
            check_masked(observations, self._spec)
        return StepBatch(observations, rewards, terminated, valid)

    def _read_flags(self, view: memoryview) -> NDArray[np.bool_]:
        return np.unpackbits(np.frombuffer(view, np.uint8, self._bits), count=self._count).view(np.bool_)

    def pack_actions(self, actions: NDArray[Any]) -> bytes:
        """Return the body of an `act`. actions: (B, *action.shape)."""
        return actions.astype(self._action.packed).tobytes()

    def read_actions(self, body: Buffer) -> NDArray[Any]:
        """Return the actions in the body of an `act`, of action.dtype; raises CodecError as `read_seen`."""
        view = memoryview(body).cast("B")
        shape = (self._count, *self._action.shape)
        expected = math.prod(shape) * self._action.packed.itemsize
        if len(view) != expected:
            raise CodecError(f"actions of {len(view)} bytes, {expected} were expected")
        actions = np.frombuffer(view, self._action.packed).reshape(shape)
        if self._action.kind != "box":
            return self._action.choices(actions)
        if not np.isfinite(actions).all():
            raise CodecError("an action that is no finite number")
        return actions.astype(np.float32)


def packed_dtype(observation: ObservationSpec) -> np.dtype[Any]:
    """Return the element type of observations in a body."""
    if observation.kind == "discrete":
        return narrow(observation.size)
    return np.dtype(np.uint8 if observation.kind == "pixels" else "<f4")


def check_discrete(observations: NDArray[Any], size: int) -> NDArray[np.int64]:
    """Return packed discrete observations as int64; raises CodecError for one that is not in 0..size-1."""
    if (observations >= size).any():
        raise CodecError(f"an observation that is not in 0..{size - 1}")
    return observations.astype(np.int64)


def check_masked(observations: NDArray[Any], spec: ObservationSpec) -> None:
    """Raise CodecError if a discrete observation before a mask is out of range. observations: (..., numbers)."""
    if spec.seen is not None and spec.seen.kind == "discrete":
        numbers = observations[..., 0]
        if not ((numbers >= 0) & (numbers <= spec.seen.size - 1)).all():
            raise CodecError(f"an observation that is not in 0..{spec.seen.size - 1}")


def unstacked(spec: ObservationSpec, stack: int) -> ObservationSpec:
    """Return the spec of one frame, where `spec` is of `stack` frames joined along their first axis."""
    if stack == 1:
        return spec
    first, *rest = spec.shape
    return dataclasses.replace(spec, shape=(first // stack, *rest), size=spec.size // stack)


def group_sizes(num_envs: int, groups: int) -> list[int]:
    """Return the number of environments in each group of an actor: nearly equal, the larger groups first."""
    return [num_envs // groups + (group < num_envs % groups) for group in range(groups)]


def group_seed(seed: int, group: int) -> int:
    """Return the seed of one group's environments, made from the actor's seed."""
    return int(np.random.SeedSequence([seed, group, 2]).generate_state(1, np.uint32)[0] >> 1)


def sampler(seed: int, group: int, step: int) -> np.random.Generator:
    """Return the generator that samples one group's actions from a step on, made from the actor's seed."""
    return np.random.default_rng([seed, 1, group, step])
