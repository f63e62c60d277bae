from __future__ import annotations

import subprocess

import pytest

from deploy.install.layout import SYSTEM, UNITS, USER, Layout, read, shell_word


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


def test_a_shell_reads_a_path_as_one_word() -> None:
    words = f"{shell_word('~/a b')} {shell_word('/c $(d)')}"
    command = ["sh", "-c", f"printf '%s\\n' {words}"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, env={"HOME": "/some one"}).stdout
    assert said.splitlines() == ["/some one/a b", "/c $(d)"]
