import subprocess
import sys

import pytest

from common.errors import RefusedError
from common.settings.codec_names import NAMES
from common.wire.codecs.negotiate import SLOW_MBIT, SMALL, choose

LARGE = SMALL


@pytest.mark.parametrize(
    ("codec", "entropy", "size", "loopback", "link_mbit", "chosen"),
    [
        ("auto", "auto", SMALL - 1, True, 0.0, "none"),
        ("auto", "auto", LARGE, True, 0.0, "fp16"),
        ("auto", "auto", LARGE, True, 10.0, "fp16"),
        ("auto", "auto", 1000, False, 0.0, "int8+lz4"),
        ("auto", "auto", LARGE, False, 0.0, "int8+lz4"),
        ("auto", "auto", LARGE, False, SLOW_MBIT, "int8+lz4"),
        ("auto", "auto", LARGE, False, SLOW_MBIT - 1, "int8+zstd"),
        ("auto", "zstd", LARGE, True, 0.0, "fp16+zstd"),
        ("auto", "none", LARGE, False, 0.0, "int8"),
        ("bf16", "auto", LARGE, True, 0.0, "bf16"),
        ("fp16", "auto", LARGE, False, 0.0, "fp16+lz4"),
        ("none", "auto", LARGE, False, 100.0, "none+zstd"),
        ("int8", "none", 10, True, 0.0, "int8"),
        ("none", "none", LARGE, False, 1.0, "none"),
        ("bf16", "lz4", LARGE, False, 1.0, "bf16+lz4"),
        ("top-k", "auto", LARGE, False, 1.0, "top-k+zstd"),
        ("sign", "auto", LARGE, False, 0.0, "sign+lz4"),
        ("ternary", "auto", 10, True, 0.0, "ternary"),
    ],
)
def test_choice_when_all_is_offered(
    codec: str, entropy: str, size: int, loopback: bool, link_mbit: float, chosen: str
) -> None:
    assert choose(codec, entropy, NAMES, size=size, loopback=loopback, link_mbit=link_mbit) == chosen


@pytest.mark.parametrize(
    ("offered", "loopback", "link_mbit", "chosen"),
    [
        (("none", "fp16", "int8", "int8+lz4"), False, 100.0, "int8+lz4"),
        (("none", "fp16", "int8"), False, 0.0, "int8"),
        (("none", "fp16+zstd"), False, 0.0, "fp16+zstd"),
        (("none", "bf16"), False, 0.0, "bf16"),
        (("none", "int8"), True, 0.0, "none"),
        (("int8", "int8+lz4"), True, 0.0, "int8"),
        (("none", "sketch", "int9+lz5"), False, 0.0, "none"),
        (("none", "top-k+zstd", "sign+zstd", "ternary+zstd"), False, 10.0, "none"),
    ],
)
def test_falls_back_to_the_best_that_is_offered(
    offered: tuple[str, ...], loopback: bool, link_mbit: float, chosen: str
) -> None:
    assert choose("auto", "auto", offered, size=LARGE, loopback=loopback, link_mbit=link_mbit) == chosen


def test_a_fixed_codec_never_falls_back_to_another() -> None:
    with pytest.raises(RefusedError) as refusal:
        choose("int8", "auto", ("none", "fp16"), size=LARGE, loopback=False, link_mbit=0.0)
    assert "int8+lz4" in str(refusal.value)
    assert "fp16" in str(refusal.value)


@pytest.mark.parametrize("offered", [("top-k", "sign", "ternary"), ("int9",)])
def test_what_loses_most_is_only_told_never_chosen(offered: tuple[str, ...]) -> None:
    with pytest.raises(RefusedError, match="no common codec"):
        choose("auto", "auto", offered, size=LARGE, loopback=False, link_mbit=0.0)


def test_nothing_offered_is_refused() -> None:
    with pytest.raises(RefusedError, match="none at all"):
        choose("auto", "auto", (), size=LARGE, loopback=False, link_mbit=0.0)


def test_negotiating_needs_no_torch() -> None:
    check = "import sys, common.wire.codecs.negotiate; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
