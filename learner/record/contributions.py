"""What each actor contributed, from the record of what was applied."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np

from common.errors import CodecError
from common.settings.codec_names import TOP_K
from common.wire.codecs.registry import PackedCodec
from common.wire.codecs.registry import make as make_codec
from common.wire.messages import Gradient
from learner.applied import Added, Began, Stepped
from learner.record.gradient_history import History


class Applied(msgspec.Struct, kw_only=True):
    """One contribution that was applied."""

    peer: str
    incarnation: str
    sequence: int
    version: int
    """The version that it went into."""
    lag: int
    """Steps between the weights that acted and those to which it was added."""
    weight: float
    """The factor with which it was added."""
    rollouts: int
    norm: float | None
    """Norm of the gradient as it was unpacked; None for a trajectory."""


def contributions(folder: Path, peer: str = "") -> Iterator[Applied]:
    """Yield the contributions that led to the newest weights, in order: those of one actor, or of all.

    Raises DamagedRecordError.
    """
    norms: _Norms | None = None
    for piece in History.read(folder).pieces:
        waiting: list[Applied | None] = []
        """Contributions to the next step; None: another actor's."""
        for entry, body in piece.entries(piece.first, piece.last):
            match entry:
                case Began():
                    norms = _Norms(entry)  # a resumed run may have another exchange.top_k
                case Added(against=False):
                    assert norms is not None
                    waiting.append(_applied(entry, norms.of(entry, body)) if peer in ("", entry.peer) else None)
                case Stepped():
                    for number, one in enumerate(waiting):
                        if one is not None and number not in entry.left_out:
                            yield msgspec.structs.replace(one, version=entry.version)
                    waiting = []


def _applied(entry: Added, norm: float | None) -> Applied:
    header = entry.header
    return Applied(
        peer=entry.peer,
        incarnation=entry.incarnation,
        sequence=header.sequence,
        version=0,
        lag=entry.lag,
        weight=entry.weight,
        rollouts=header.count,
        norm=norm,
    )


class _Norms:
    def __init__(self, began: Began) -> None:
        self._size = began.parameters
        self._top_k = began.settings["exchange"].get("top_k", TOP_K)
        self._decoded = np.zeros(self._size, np.float32)
        self._codecs: dict[str, PackedCodec] = {}

    def of(self, entry: Added, body: bytes) -> float | None:
        if not isinstance(entry.header, Gradient):
            return None
        name = entry.header.codec
        try:
            if name not in self._codecs:
                self._codecs[name] = make_codec(name, self._size, self._top_k)
            self._codecs[name].decode(body, self._decoded)
        except CodecError:
            return None
        return float(np.linalg.norm(self._decoded))
