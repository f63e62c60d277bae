import importlib.util
import sys
from pathlib import Path

import pytest

from common.errors import ConfigurationError
from deploy.tracking.tracker import TRACKERS, Target, TrackedRun, open_tracker

RUN = TrackedRun("0123456789abcdef", "mine", {}, Path())


@pytest.mark.parametrize("kind", TRACKERS)
def test_without_its_library_the_cure_is_named(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, kind, None)
    with pytest.raises(ConfigurationError, match=rf"needs {kind}, .* pip install 'a3cd\[{kind}\]'"):
        open_tracker(kind, RUN, Target("p"))


@pytest.mark.parametrize("kind", TRACKERS)
def test_each_has_a_module(kind: str) -> None:
    assert importlib.util.find_spec(f"deploy.tracking.to_{kind}") is not None
