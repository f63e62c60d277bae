"""Every error that a3cd raises for a person to read, each with the exit code the process ends with."""

EXIT_DONE = 0
EXIT_USAGE = 2
EXIT_DIFFERENT = 3
"""A replay found that a run is not what its record says: other weights, or something applied twice."""
EXIT_TRY_LATER = 75
EXIT_CONFIGURATION = 78
HOPELESS = frozenset({EXIT_USAGE, EXIT_CONFIGURATION})
"""Something must be mended before the same command can do better."""
EXIT_SIGINT = 130
EXIT_SIGTERM = 143


class A3cdError(Exception):
    """Base class. The text is one line for a person; the process ends with `exit_code`."""

    exit_code = EXIT_TRY_LATER


class ConfigurationError(A3cdError):
    """A setting, option or file of the operator is wrong: the text names it and says what would be right."""

    exit_code = EXIT_CONFIGURATION


class TorchMissingError(ConfigurationError):
    """What was asked for computes with torch, which is not installed: an actor of a dense network needs none."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} needs torch, which is not installed here: pip install 'a3cd[torch]'")


class EnvironmentMissingError(ConfigurationError):
    """The environment does not exist, cannot be made, or has spaces that no network here takes."""


class ObservationError(ConfigurationError, ValueError):
    """An observation that a loaded agent is asked about is none of its environment."""


class RefusedError(A3cdError):
    """The learner and this peer do not fit (another version, keys). A daemon tries again; a command ends with it."""

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
    """An actor's gradients point against the others': this one is left out. It comes back when it agrees again."""


class NonFiniteError(A3cdError):
    """A rollout has a reward, observation, probability or gradient that is not finite, or a checkpoint would have a
    number that is not; it is dropped."""


class DamagedRecordError(A3cdError):
    """The record of what was applied cannot be read; the text names the file, and where in it."""

    exit_code = EXIT_CONFIGURATION


class DamagedCheckpointError(A3cdError):
    """A checkpoint is not whole; the text names the file and what is wrong with it. Reading it again would not help."""

    exit_code = EXIT_CONFIGURATION
