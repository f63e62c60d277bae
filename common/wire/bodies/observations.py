"""The bodies of `observe` and `act`: what a group of environments shows, and the actions it is to take.

observe   rewards        float32 (B,), of the last step
          terminated     B bits, bytes filled up
          valid          likewise; a group that begins leaves these three out
          observations   (B, *shape), to the end: float32; int64; or uint8 as one LZ4 block
act       actions        (B, *shape): float32 of a Box, else the smallest unsigned integer that holds all choices

Little-endian, bits from the lowest on. Stacked frames do not travel: only the newest does, and the learner keeps the
others. Nothing is sized by what a body says; both ends know every length from the settings and the spaces.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.errors import CodecError
from common.rl.action_spec import ActionSpec
from common.rl.observation_spec import ObservationSpec
from common.wire.codecs.entropy import EntropyStage, Lz4Stage, NoStage
from common.wire.frames import Buffer

_DTYPES = {"box": "<f4", "pixels": "u1", "discrete": "<i8"}


@dataclass(frozen=True, eq=False)
class StepBatch:
    """What one step of a group gave; (B,) each. Where the group begins, zeros: nothing was taken."""

    observations: NDArray[Any]
    """(B, *shape): what the step led to."""
    rewards: NDArray[np.float32]
    """As the environment gave them."""
    terminated: NDArray[np.bool_]
    valid: NDArray[np.bool_]
    """Whether the step counts; False where it only began an episode."""


class ObservationCodec:
    """Writes and reads both, for groups of so many environments."""

    def __init__(self, observation: ObservationSpec, action: ActionSpec, count: int) -> None:
        """`observation`: as it travels, without the frames of before."""
        self._count, self._spec, self._action = count, observation, action
        self._dtype = np.dtype(_DTYPES[observation.kind])
        self._shape = (count, *observation.shape)
        size = math.prod(self._shape) * self._dtype.itemsize
        self._stage: EntropyStage = Lz4Stage(size) if observation.kind == "pixels" else NoStage(size)
        self._bits = -(-count // 8)
        self._head = 4 * count + 2 * self._bits
        self._action_dtype = action.packed

    @property
    def max_bytes(self) -> int:
        """Length no body exceeds."""
        return self._head + self._stage.max_bytes

    def pack_seen(self, seen: StepBatch, *, begins: bool) -> bytes:
        """The body of an `observe`."""
        observations = np.ascontiguousarray(seen.observations, self._dtype)
        packed = self._stage.compress(observations.tobytes())
        if begins:
            return packed
        rewards = seen.rewards.astype("<f4", copy=False).tobytes()
        return b"".join([rewards, *map(_packed_bits, (seen.terminated, seen.valid)), packed])

    def read_seen(self, body: Buffer, *, begins: bool) -> StepBatch:
        """What `pack_seen` packed.

        Raises CodecError for a body of another length, and for values that no environment gives: numbers that are not
        finite, discrete observations out of range.
        """
        count, bits = self._count, self._bits
        view = memoryview(body).cast("B")
        rewards, terminated, valid = np.zeros(count, np.float32), np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        if not begins:
            if len(view) < self._head:
                raise CodecError(f"observations of {len(view)} bytes, at least {self._head} were expected")
            rewards = np.frombuffer(view, "<f4", count)
            terminated = _read_bits(view[4 * count :], count)
            valid = _read_bits(view[4 * count + bits :], count)
            view = view[self._head :]
        raw = self._stage.decompress(view)
        if len(raw) != self._stage.raw_bytes:
            raise CodecError(f"observations of {len(raw)} bytes, {self._stage.raw_bytes} were expected")
        observations = np.frombuffer(raw, self._dtype).reshape(self._shape)
        self._check(observations, rewards)
        return StepBatch(observations, rewards, terminated, valid)

    def _check(self, observations: NDArray[Any], rewards: NDArray[np.float32]) -> None:
        if not np.isfinite(rewards).all():
            raise CodecError("a reward that is no finite number")
        match self._spec.kind:
            case "box" if not np.isfinite(observations).all():
                raise CodecError("an observation that is no finite number")
            case "discrete" if not ((observations >= 0) & (observations < self._spec.size)).all():
                raise CodecError(f"an observation that is not in 0..{self._spec.size - 1}")

    def pack_actions(self, actions: NDArray[Any]) -> bytes:
        """The body of an `act`; actions (B, *action.shape)."""
        return actions.astype(self._action_dtype).tobytes()

    def read_actions(self, body: Buffer) -> NDArray[Any]:
        """What `pack_actions` packed, of action.dtype; raises CodecError for another length, for choices that there
        are not, and for numbers that are not finite."""
        view = memoryview(body).cast("B")
        shape = (self._count, *self._action.shape)
        expected = math.prod(shape) * self._action_dtype.itemsize
        if len(view) != expected:
            raise CodecError(f"actions of {len(view)} bytes, {expected} were expected")
        actions = np.frombuffer(view, self._action_dtype).reshape(shape)
        if self._action.kind != "box":
            return self._action.choices(actions)
        if not np.isfinite(actions).all():
            raise CodecError("an action that is no finite number")
        return actions.astype(np.float32)


def unstacked(spec: ObservationSpec, stack: int) -> ObservationSpec:
    """One of the `stack` observations that were joined along their first axis into one of `spec`."""
    if stack == 1:
        return spec
    first, *rest = spec.shape
    return dataclasses.replace(spec, shape=(first // stack, *rest), size=spec.size // stack)


def group_sizes(copies: int, groups: int) -> list[int]:
    """How an actor's copies are split."""
    return [copies // groups + (group < copies % groups) for group in range(groups)]


def group_seed(seed: int, group: int) -> int:
    """Seed of one group's environments, of the actor's own. Their copies hash it, so neighbours share nothing."""
    return int(np.random.SeedSequence([seed, group, 2]).generate_state(1, np.uint32)[0] >> 1)


def sampler(seed: int, group: int) -> np.random.Generator:
    """The generator that draws one group's actions; `seed` is the actor's."""
    return np.random.default_rng([seed, 1, group])


def _packed_bits(flags: NDArray[np.bool_]) -> bytes:
    return np.packbits(flags, bitorder="little").tobytes()


def _read_bits(view: memoryview, count: int) -> NDArray[np.bool_]:
    return np.unpackbits(np.frombuffer(view, np.uint8, -(-count // 8)), count=count, bitorder="little").view(np.bool_)
