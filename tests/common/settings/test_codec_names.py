from typing import get_args, get_type_hints

from common.settings.codec_names import COARSE, CODECS, NAMES, PARTS, STAGES, TOP_K, feeds_back, join
from common.settings.sections import Exchange


def test_every_codec_is_named_with_every_stage() -> None:
    assert len(NAMES) == len(set(NAMES)) == len(CODECS) * len(STAGES)
    assert {"none", "fp16", "bf16+lz4", "int8+zstd"} <= set(NAMES)


def test_join_and_parts_are_inverse() -> None:
    assert all(join(*parts) == name for name, parts in PARTS.items())
    assert PARTS["int8"] == ("int8", "none")


def test_the_settings_allow_auto_and_exactly_these_kinds() -> None:
    hints = get_type_hints(Exchange)
    assert set(get_args(hints["codec"])) == {"auto", *CODECS}
    assert set(get_args(hints["entropy_coder"])) == {"auto", *STAGES}
    assert Exchange().top_k == TOP_K


def test_error_feedback_is_on_by_itself_where_the_codec_needs_it() -> None:
    assert set(COARSE) < set(CODECS)
    assert feeds_back("auto", "top-k+lz4") and feeds_back("auto", "sign") and feeds_back("auto", "ternary+zstd")
    assert not any(feeds_back("auto", name) for name in ("none", "fp16+lz4", "bf16", "int8+zstd"))
    assert feeds_back(True, "int8") and not feeds_back(False, "sign")
