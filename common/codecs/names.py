"""The names two peers may agree on: a codec kind, with an entropy stage after a plus sign where there is one."""

from __future__ import annotations

from typing import Literal, get_args

CodecKind = Literal["none", "fp16", "bf16", "int8"]
StageKind = Literal["none", "lz4", "zstd"]

CODECS: tuple[CodecKind, ...] = get_args(CodecKind)
STAGES: tuple[StageKind, ...] = get_args(StageKind)


def join(codec: CodecKind, stage: StageKind) -> str:
    """The name of `codec` followed by `stage`: ("int8", "zstd") is "int8+zstd", ("int8", "none") is "int8"."""
    return codec if stage == "none" else f"{codec}+{stage}"


PARTS: dict[str, tuple[CodecKind, StageKind]] = {
    join(codec, stage): (codec, stage) for codec in CODECS for stage in STAGES
}
"""Every name, with the codec and the stage it stands for."""

NAMES: tuple[str, ...] = tuple(PARTS)
