from __future__ import annotations

import pytest

from deploy.install.layout import SYSTEM, UNITS, USER, Layout, read


def test_paths() -> None:
    assert (SYSTEM.a3cd, SYSTEM.keys, SYSTEM.wheels) == ("/opt/a3cd/bin/a3cd", "/etc/a3cd/keys", "/opt/a3cd-wheels")
    assert SYSTEM.systemctl == ["systemctl"]
    assert USER.keys == "~/.config/a3cd/keys"
    assert USER.systemctl == ["systemctl", "--user"]


@pytest.mark.parametrize("layout", [SYSTEM, USER], ids=["system", "user"])
@pytest.mark.parametrize("name", UNITS)
def test_units_name_the_paths_of_their_layout(layout: Layout, name: str) -> None:
    text, other = layout.unit(name).decode(), SYSTEM if layout.user else USER
    assert text.startswith("# ")
    if name.endswith(".service"):
        assert layout.a3cd.replace("~", "%h") in text
        assert f"{layout.data.replace('~', '%h')}/%i" in text or "learner" not in name
    assert other.venv.replace("~", "%h") not in text
    assert other.config.replace("~", "%h") + "/" not in text


def test_what_goes_beside_them() -> None:
    for path in (("sysusers.conf",), ("tmpfiles.conf",), ("polkit.rules",), ("drop-ins", "learner-gpu.conf")):
        assert read(*path)
