"""Reasons why a host cannot play for a learner that let it in, worded for the operators of both."""

from common.host.versions import own_version
from common.settings.sections import Settings
from common.wire.messages import Welcome


def not_understood(welcome: Welcome, error: Exception) -> str:
    """Return the reason for a run whose settings this host cannot read."""
    return (
        f"the settings of the learner (a3cd {welcome.a3cd or 'unknown'}) cannot be read here (a3cd "
        f"{own_version()}): {error}; install the same a3cd on both ends"
    )


def other_network(own: str, welcome: Welcome, settings: Settings) -> str:
    """Return the reason for a run whose settings give a network with the hash `own` here and another at the learner."""
    return (
        f"the network built here ({own}) is not the learner's ({welcome.model}): {settings.environment.id}, the "
        f"network {settings.network.kind} or a3cd differ between the two hosts; install the same versions"
    )
