"""The choice of one codec for one peer: a pure function of the settings, the codecs that the peer has, and the link.

The rule for `auto` follows `benchmarks/codecs.py`: on loopback, halves save time only if the vector is large; on a
network int8 saves three bytes of four, and lz4 costs almost nothing on bytes that it cannot compress; on a slow link
zstd's smaller body outweighs its slower packing. top-k, sign and ternary, which lose most of a gradient, are never
chosen by `auto`.
"""

from collections.abc import Collection

from common.errors import RefusedError
from common.settings.codec_names import CODECS, CodecKind, StageKind, join

SMALL = 1 << 18
"""Elements (1 MiB of float32) below which packing takes as long as it saves on loopback."""
SLOW_MBIT = 500.0
"""Link speed below which zstd comes before lz4."""


def choose(codec: str, entropy: str, offered: Collection[str], *, size: int, loopback: bool, link_mbit: float) -> str:
    """Return the name of this peer's codec, the first preferred one that it offers; raises RefusedError without one.

    codec, entropy, link_mbit: settings of the exchange. size: elements of the vector. loopback: the peer is on this
    machine, so that `link_mbit` does not count. Unknown names among the offered ones are ignored.
    """
    automatic, stages = _preferences(size, loopback, link_mbit)
    kinds = automatic if codec == "auto" else [kind for kind in CODECS if kind == codec]
    wanted = [join(kind, stage) for kind in kinds for stage in stages if entropy in ("auto", stage)]
    for name in wanted:
        if name in offered:
            return name
    raise RefusedError(
        f"no common codec: this run takes {', '.join(sorted(wanted))}; "
        f"the peer offers {', '.join(sorted(offered)) or 'none at all'}"
    )


def _preferences(size: int, loopback: bool, link_mbit: float) -> tuple[list[CodecKind], list[StageKind]]:
    """Return codec kinds and entropy stages, best first; the kind matters more than the stage."""
    if loopback and size < SMALL:
        return ["none", "fp16", "bf16", "int8"], ["none", "lz4", "zstd"]
    if loopback:
        return ["fp16", "none", "bf16", "int8"], ["none", "lz4", "zstd"]
    slow = 0 < link_mbit < SLOW_MBIT
    return ["int8", "fp16", "bf16", "none"], ["zstd", "lz4", "none"] if slow else ["lz4", "zstd", "none"]
