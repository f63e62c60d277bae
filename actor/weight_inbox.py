"""Newer weights on their way into the model, whole or against the whole ones before them."""

from __future__ import annotations

import torch

from common.rl.model import Model
from common.wire.bodies.delta import DeltaFormat
from common.wire.bodies.weights import WeightsFormat
from common.wire.frames import Buffer


class Incoming:
    """The newest weights offered, and the keyframe; nothing is written into the model before `load`."""

    def __init__(self, model: Model, form: str, *, deltas: bool) -> None:
        """`form`: of whole weights, fp32 or fp16; `deltas`: they are the keyframes of deltas."""
        size, vectors, extras = model.flat.size, len(model.vectors), model.extras.numel()
        self._model = model
        self._format = WeightsFormat(form, size, vectors, extras)
        self._delta = DeltaFormat(size, vectors, extras) if deltas else None
        self._keyframe = torch.zeros(vectors * size if deltas else 0)
        self._newest: tuple[int, Buffer, bool] | None = None
        self._whole: tuple[int, Buffer] | None = None
        self._keyframe_version = -1

    def offer(self, version: int, body: Buffer, *, delta: bool = False) -> None:
        """Newer weights; those offered before and not loaded are passed over."""
        self._newest = (version, body, delta)
        if self._delta is not None and not delta:
            self._whole = (version, body)

    def load(self) -> int | None:
        """Writes the newest into the model and returns their version; None: there is nothing new.

        Raises CodecError for a body that is not as agreed on; the model is as it was.
        """
        if self._newest is None:
            return None
        (version, body, delta), self._newest = self._newest, None
        model = self._model
        if self._whole is not None:
            (keyframe, whole), self._whole = self._whole, None
            self._format.unpack(whole, torch.split(self._keyframe, model.flat.size), torch.empty_like(model.extras))
            self._keyframe_version = keyframe
        if delta and self._delta is not None:
            self._delta.unpack(body, self._keyframe_version, self._keyframe, model.vectors, model.extras)
        else:
            self._format.unpack(body, model.vectors, model.extras)
        return version

    def forget(self) -> None:
        """Drops all that has been offered, and the keyframe."""
        self._newest, self._whole, self._keyframe_version = None, None, -1
