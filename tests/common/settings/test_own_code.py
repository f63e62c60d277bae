from __future__ import annotations

from pathlib import Path

import pytest

from common.errors import ConfigurationError
from common.settings.own_code import own_code
from common.settings.sections import Settings
from common.settings.toml import override, parse


def test_whatever_settings_may_have_imported_is_named() -> None:
    assert own_code(Settings()) == []
    settings = override(
        Settings(),
        ["environment.id=a.games:Car-v0", 'environment.wrappers=["b:Shaped", "c:Cut"]', "network.kind=a.nets:N"],
    )
    assert own_code(settings) == ["a.games:Car-v0", "b:Shaped", "c:Cut", "a.nets:N"]


def test_files_become_modules_wherever_they_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").touch()
    text = 'environment = { id = "own.py:Grid", wrappers = ["own.py:Shaped"] }\nnetwork.kind = "own.py:Net"'
    assert own_code(parse(text, "run.toml")) == ["own:Grid", "own:Shaped", "own:Net"]
    assert own_code(override(Settings(), ["network.kind=own.py:Net"])) == ["own:Net"]
    with pytest.raises(
        ConfigurationError, match=r"run\.toml: network\.kind: owl\.py:Net: there is no file .*did you mean own"
    ):
        parse('network.kind = "owl.py:Net"', "run.toml")
    with pytest.raises(ConfigurationError, match=r"environment\.wrappers = 3: must be a list, each module:Class"):
        parse("environment.wrappers = 3", "run.toml")
