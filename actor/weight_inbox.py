"""Weights that were received and are not yet written into the model."""

import numpy as np

from common.rl.model import Model
from common.wire.bodies.delta import DeltaFormat, keyframe_of
from common.wire.bodies.weights import WeightsFormat
from common.wire.frames import Buffer


class WeightInbox:
    """Holds the newest weights until `load`, and the whole weights that a delta refers to (its keyframe)."""

    def __init__(self, model: Model, form: str, *, deltas: bool) -> None:
        """form: format of whole weights, fp32 or fp16. deltas: whether the run also sends deltas against them."""
        size, vectors, extras = model.size, len(model.vectors), model.extras.size
        self.version = 0
        """Version of the weights in the model; 0 after `forget`."""
        self._model = model
        self._vectors = model.vectors
        self._format = WeightsFormat(form, size, vectors, extras)
        self._delta = DeltaFormat(size, vectors, extras) if deltas else None
        self._keyframe = np.zeros((vectors, size if deltas else 0), np.float32)
        self._keyframe_version = -1
        self._newest: tuple[int, Buffer, bool] | None = None
        self._whole: Buffer | None = None
        """The keyframe, not decoded yet."""

    @property
    def keyframe(self) -> int | None:
        """Version of the whole weights offered last, -1 if there are none; None: this run sends no deltas."""
        return None if self._delta is None else self._keyframe_version

    def offer(self, version: int, body: Buffer, *, delta: bool = False) -> bool:
        """Takes newer weights in place of any that were offered and not yet loaded.

        False: `body` is a delta against weights other than the whole ones offered last; it is not taken.
        """
        if delta and keyframe_of(body) != self._keyframe_version:
            return False
        self._newest = (version, body, delta)
        if self._delta is not None and not delta:
            self._whole, self._keyframe_version = body, version
        return True

    def load(self) -> None:
        """Writes the newest weights into the model, if there are any.

        Raises CodecError for a body that does not decode; the model and `version` are as before.
        """
        if self._newest is None:
            return
        (version, body, delta), self._newest = self._newest, None
        model = self._model
        if self._whole is not None:
            whole, keyframe = self._whole, self._keyframe_version
            self._whole, self._keyframe_version = None, -1  # if decoding fails, there is no keyframe
            self._format.unpack(whole, list(self._keyframe), np.empty_like(model.extras))
            self._keyframe_version = keyframe
        if delta and self._delta is not None:
            self._delta.unpack(body, self._keyframe_version, self._keyframe.reshape(-1), self._vectors, model.extras)
        else:
            self._format.unpack(body, self._vectors, model.extras)
        self.version = version

    def forget(self) -> None:
        """Drops everything that belongs to the previous epoch; the model keeps its weights."""
        self.version, self._keyframe_version = 0, -1
        self._newest = self._whole = None
