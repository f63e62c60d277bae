"""A process that dies at a chosen call to the operating system."""

from __future__ import annotations

import os
from collections.abc import Iterable

import pytest


class Killed(BaseException):
    """Stands for the end of the process: no code catches it, and nothing is cleaned up."""


def die_at_call(patch: pytest.MonkeyPatch, names: Iterable[str], calls: int) -> None:
    """Lets these functions of `os` work for `calls` calls, all together; the next call raises Killed."""
    left = [calls]

    def dying(name: str) -> None:
        genuine = getattr(os, name)

        def call(*arguments: object, **keywords: object) -> object:
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            return genuine(*arguments, **keywords)

        patch.setattr(os, name, call)

    for name in names:
        dying(name)
