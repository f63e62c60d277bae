"""The command line in tests: `a3cd` in this process, and stand-ins for the functions that do the work."""

from __future__ import annotations

from typing import Any

from click.testing import CliRunner, Result

from common.host.addresses import Address
from common.host.security.access import LearnerEndpoint
from deploy.cli.command import cli

AT = LearnerEndpoint(Address("localhost", 5555))


class Stand:
    """A stand-in for a function: keeps the arguments of its last call, and returns or raises `answer`."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.arguments: tuple[Any, ...] = ()
        self.options: dict[str, Any] = {}

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        self.arguments, self.options = arguments, options
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


def a3cd(*arguments: object) -> Result:
    return CliRunner().invoke(cli, list(map(str, arguments)))
