from typing import get_args, get_type_hints

from common.codecs.names import CODECS, NAMES, PARTS, STAGES, join
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
