"""The choice of one codec for one peer: a pure function of the settings, what the peer offers, and the link.

Why `auto` chooses as it does (`benchmarks/codecs.py`): on loopback halves save time only where the vector is large;
on a network int8 saves four bytes of five even where nothing is zero, and lz4 costs next to nothing on bytes that it
cannot compress; on a slow link zstd's smaller body pays for its slower packing. What loses most of a gradient (top-k,
sign, ternary) is never chosen, only told: how it learns is for the run to find out.
"""

from __future__ import annotations

from collections.abc import Collection

from common.errors import ConfigurationError, RefusedError
from common.settings.codec_names import CODECS, STAGES, CodecKind, StageKind, join

SMALL = 1 << 18
"""Elements (1 MiB of float32) below which a vector on loopback goes unpacked: packing takes as long as it saves."""
SLOW_MBIT = 500.0
"""Link speed below which zstd is preferred to lz4."""


def choose(codec: str, entropy: str, offered: Collection[str], *, size: int, loopback: bool, link_mbit: float) -> str:
    """The name of the codec this peer is to use: the most preferred one that it offers.

    Args:
        codec: setting `exchange.codec`: "auto" or a codec kind.
        entropy: setting `exchange.entropy_coder`: "auto" or an entropy stage.
        offered: names the peer says it can speak; names unknown here are passed over.
        size: elements of the vector.
        loopback: whether the peer is on this machine; `link_mbit` says nothing about such a peer.
        link_mbit: speed of the slowest link in Mbit/s; 0: not known.

    Raises:
        ConfigurationError: a setting is neither "auto" nor a kind.
        RefusedError: the peer offers nothing that the settings allow.
    """
    _check("exchange.codec", codec, CODECS)
    _check("exchange.entropy_coder", entropy, STAGES)
    automatic, stages = _preferences(size, loopback, link_mbit)
    wanted = [
        join(kind, stage)
        for kind in (automatic if codec == "auto" else CODECS)
        for stage in stages
        if codec in ("auto", kind) and entropy in ("auto", stage)
    ]
    for name in wanted:
        if name in offered:
            return name
    raise RefusedError(
        f"no common codec: this run takes {', '.join(sorted(wanted))}; "
        f"the peer offers {', '.join(sorted(offered)) or 'none at all'}"
    )


def _check(setting: str, value: str, kinds: tuple[str, ...]) -> None:
    if value != "auto" and value not in kinds:
        raise ConfigurationError(f"{setting} = {value!r}: must be auto, {', '.join(kinds)}")


def _preferences(size: int, loopback: bool, link_mbit: float) -> tuple[tuple[CodecKind, ...], tuple[StageKind, ...]]:
    """Codec kinds and entropy stages, best first; the kind weighs more than the stage."""
    if loopback:
        stages: tuple[StageKind, ...] = ("none", "lz4", "zstd")
        if size < SMALL:
            return ("none", "fp16", "bf16", "int8"), stages
        return ("fp16", "none", "bf16", "int8"), stages
    if 0 < link_mbit < SLOW_MBIT:
        return ("int8", "fp16", "bf16", "none"), ("zstd", "lz4", "none")
    return ("int8", "fp16", "bf16", "none"), ("lz4", "zstd", "none")
