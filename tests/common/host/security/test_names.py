"""What a key may be called, and who may go by its name."""

import pytest

from common.errors import ConfigurationError
from common.host.security.names import check_name, is_name_under


def test_names_under_a_key() -> None:
    assert all(is_name_under("lab7", name) for name in ("lab7", "lab7/", "lab7/a", "lab7/a/b"))
    assert not any(is_name_under("lab7", name) for name in ("", "lab", "lab70", "lab70/a", "a/lab7", "Lab7/a", "/lab7"))


@pytest.mark.parametrize("name", ["", "a/b", "a b", ".hidden", "ä", "x" * 65, "a\n"])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(ConfigurationError, match="is no name"):
        check_name(name)
