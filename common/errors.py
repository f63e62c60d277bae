"""Every error that a3cd raises for a person to read, each with the exit code the process ends with."""

import errno

EXIT_DONE = 0
EXIT_USAGE = 2
EXIT_DIFFERENT = 3
"""A replay did not reproduce the run that its record describes: other weights, or something applied twice."""
EXIT_TRY_LATER = 75
EXIT_CONFIGURATION = 78
HOPELESS = frozenset({EXIT_USAGE, EXIT_CONFIGURATION})
"""Exit codes after which the same command would fail again: something must be fixed first."""
WRONG_PATH = frozenset(
    {
        errno.EACCES,
        errno.EINVAL,
        errno.EISDIR,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.ENOENT,
        errno.ENOTDIR,
        errno.EPERM,
    }
)
"""System errors that mean that a path for something new is wrong, or not this user's; others may pass by themselves."""
EXIT_SIGINT = 130
EXIT_SIGTERM = 143


class A3cdError(Exception):
    """Base class. The text is one line for a person; the process ends with `exit_code`."""

    exit_code = EXIT_TRY_LATER


class ConfigurationError(A3cdError):
    """A setting, option or file of the operator is wrong: the text names it and says what would be right."""

    exit_code = EXIT_CONFIGURATION


class TorchMissingError(ConfigurationError):
    """The operation needs torch, which is not installed. (An actor with a dense network does not need it.)"""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} needs torch, which is not installed here: pip install 'a3cd[torch]'")


class EnvironmentMissingError(ConfigurationError):
    """The environment does not exist, cannot be made, or has spaces that no network here takes."""


class ObservationError(ConfigurationError, ValueError):
    """An observation or action mask given to a loaded agent does not fit the agent's environment."""


class RefusedError(A3cdError):
    """The learner and this peer do not fit together (versions, keys). A daemon tries again; a command ends."""

    exit_code = EXIT_CONFIGURATION


class UnavailableError(A3cdError):
    """Something is not available now (a port in use, a full disk, an environment that keeps failing)."""


class WireError(A3cdError):
    """A peer sent bytes that are not a message; the daemon goes on."""


class ProtocolError(WireError):
    """A hello has another protocol number, or fields of another version."""


class CodecError(A3cdError):
    """A body does not decode with the codec in its header."""


class AgainstOthersError(CodecError):
    """An actor's gradients point against those of the others: they are left out until they agree again."""


class NonFiniteError(A3cdError):
    """A rollout has a reward, observation, probability or gradient that is not finite, or a checkpoint would contain
    such a number; the rollout or the checkpoint is dropped."""


class DamagedRecordError(A3cdError):
    """The record of what was applied cannot be read; the text names the file and the place in it."""

    exit_code = EXIT_CONFIGURATION


class DamagedCheckpointError(A3cdError):
    """A checkpoint is not whole; the text names the file and what is wrong with it. Reading it again would not help."""

    exit_code = EXIT_CONFIGURATION
