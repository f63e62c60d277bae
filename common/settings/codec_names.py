"""Names of codecs: a codec kind, and after a plus sign an entropy stage if there is one."""

from typing import Literal, get_args

CodecKind = Literal["none", "fp16", "bf16", "int8", "top-k", "sign", "ternary"]
StageKind = Literal["none", "lz4", "zstd"]

CODECS: tuple[CodecKind, ...] = get_args(CodecKind)
STAGES: tuple[StageKind, ...] = get_args(StageKind)

COARSE: tuple[CodecKind, ...] = ("top-k", "sign", "ternary")
"""Codecs whose error is so large and biased that learning needs error feedback."""
TOP_K = 0.01
"""Default fraction of the elements that top-k sends."""


def join(codec: CodecKind, stage: StageKind) -> str:
    """Return the name: ("int8", "zstd") gives "int8+zstd", ("int8", "none") gives "int8"."""
    return codec if stage == "none" else f"{codec}+{stage}"


PARTS = {join(codec, stage): (codec, stage) for codec in CODECS for stage in STAGES}
"""Every name, with its codec and stage."""
NAMES: tuple[str, ...] = tuple(PARTS)


def feeds_back(setting: bool | Literal["auto"], name: str) -> bool:
    """Return whether the codec of this name gets error feedback; `setting` is `exchange.error_feedback`."""
    return PARTS[name][0] in COARSE if setting == "auto" else setting
