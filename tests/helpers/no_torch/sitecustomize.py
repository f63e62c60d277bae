"""Hides torch from a process with this folder on PYTHONPATH, as if it were not installed."""

from __future__ import annotations

import sys
from typing import Any


class _Missing:
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, _Missing())
