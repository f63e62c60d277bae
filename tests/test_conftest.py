"""CI's time for tests can end before they have all begun."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(("begin_before", "outcome"), [("1", "1 skipped"), ("99999999999", "1 passed")])
def test_what_would_begin_too_late_is_skipped_with_the_reason(begin_before: str, outcome: str, tmp_path: Path) -> None:
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    (tmp_path / "test_one.py").write_text("def test_one():\n    pass\n")
    command = [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", str(tmp_path)]
    environment = {**os.environ, "TESTS_BEGIN_BEFORE": begin_before}
    said = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, env=environment).stdout
    assert outcome in said
    assert ("the time for tests was over" in said) == ("skipped" in outcome)
