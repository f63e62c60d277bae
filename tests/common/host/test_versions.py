from __future__ import annotations

import sys

import pytest
import torch

from common.host import versions as module
from common.host.versions import versions


def test_what_this_process_runs_on(monkeypatch: pytest.MonkeyPatch) -> None:
    found = versions()
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert found["torch"] == torch.__version__.partition("+")[0] or found["torch"] == torch.__version__
    monkeypatch.setattr(module, "PACKAGES", ("no-such-package",))
    assert list(versions()) == ["python"]
