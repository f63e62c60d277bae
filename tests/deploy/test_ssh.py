from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from deploy.ssh import STRICT, ssh_command


def test_the_words() -> None:
    words = ssh_command("ann@box", config="some config")
    assert words[:4] == ["ssh", "-F", "some config", "-T"]
    assert words[-2:] == ["--", "ann@box"]
    assert "-F" not in ssh_command("box")


def test_ssh_takes_the_options_before_those_of_its_configuration(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        "Host *\n  StrictHostKeyChecking no\n  ForwardAgent yes\n  PasswordAuthentication yes\n  Port 2222\n"
    )
    words = ssh_command("box", config=str(config))
    try:
        done = subprocess.run([words[0], "-G", *words[1:]], capture_output=True, text=True, check=True)
    except FileNotFoundError:
        pytest.skip("not installed: ssh")
    found = dict(line.partition(" ")[::2] for line in done.stdout.splitlines())
    assert found["port"] == "2222"
    for option in STRICT:
        key, _, value = option.partition("=")
        if key not in ("ControlMaster", "ControlPath", "ConnectTimeout"):  # printed otherwise, or not at all
            assert found[key.lower()] in (value, {"yes": "true", "no": "false"}.get(value)), key
