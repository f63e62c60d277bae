"""Every error a3cd raises on purpose, on one page, each with the exit code a process ends with."""

from __future__ import annotations

EXIT_DONE = 0
EXIT_USAGE = 2
EXIT_TRY_LATER = 75
EXIT_CONFIGURATION = 78
EXIT_SIGINT = 130
EXIT_SIGTERM = 143


class A3cdError(Exception):
    """Base of all: its text is one line for a person; `exit_code` is what the process ends with."""

    exit_code = EXIT_TRY_LATER


class ConfigurationError(A3cdError):
    """Something the operator wrote cannot be: the text names it and says what would be right."""

    exit_code = EXIT_CONFIGURATION


class EnvironmentMissingError(ConfigurationError):
    """The environment does not exist, cannot be made, or has spaces no network here can take."""


class RefusedError(A3cdError):
    """The learner refused this peer for good (wrong protocol, wrong model): starting again would not help."""

    exit_code = EXIT_CONFIGURATION


class UnavailableError(A3cdError):
    """Something outside is not there now (a port in use, an environment that keeps failing)."""

    exit_code = EXIT_TRY_LATER


class WireError(A3cdError):
    """A peer sent bytes that are no message; the peer is at fault and the daemon lives on."""


class CodecError(A3cdError):
    """A body does not decode as its codec says; the sender is at fault."""
