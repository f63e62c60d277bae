"""The connection to a learner, step by step: its name, its ports, its answer, and what its run needs on this host."""

import socket
import time
from collections.abc import Mapping

from common.errors import EnvironmentMissingError, RefusedError, UnavailableError
from common.host.addresses import Address
from common.host.modules import findable, module_of
from common.host.security.access import LearnerEndpoint
from common.host.service.logs import printable
from common.host.versions import versions
from common.rl.environments.names import find_spec
from common.wire.messages import PROTOCOL
from deploy.cli.doctor.finding import Finding
from deploy.cli.observer import fetch

CONNECT_SECONDS = 3.0
ANSWER_SECONDS = 3.0
CLOCK_SECONDS = 2.0
"""A larger difference between the clocks is a warning."""


def look(access: LearnerEndpoint) -> list[Finding]:
    """The findings up to the first step that fails; the steps after it would fail too."""
    address = access.address
    findings = [name(address)]
    if findings[0].state == "ok":
        findings += [port(address), port(address.with_port(address.port + 1), "weights port")]
        if all(finding.state == "ok" for finding in findings):
            findings += answer(access)
    return findings


def name(address: Address) -> Finding:
    try:
        known = socket.getaddrinfo(address.host.strip("[]"), address.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # the latter for a name that no host can have
        mend = "write the learner's host name as other programs here reach it, or its IP address"
        why = error.strerror if isinstance(error, OSError) else "no name of a host"
        return Finding("learner's name", "bad", f"{address.host}: {why}", mend)
    found = dict.fromkeys(str(entry[4][0]) for entry in known)
    return Finding("learner's name", "ok", f"{address.host} is {', '.join(found)}")


def port(address: Address, called: str = "learner's port") -> Finding:
    try:
        with socket.create_connection((address.host.strip("[]"), address.port), CONNECT_SECONDS) as connection:
            own = connection.getsockname()[0]
    except OSError as error:
        mend = "open the port, and the next one, in the firewalls between here and there"
        if isinstance(error, ConnectionRefusedError):
            mend = "is the learner running? other hosts reach it with --bind tcp://0.0.0.0:PORT, not with 127.0.0.1"
        return Finding(called, "bad", f"{address}: {error.strerror or 'no answer'}", mend)
    return Finding(called, "ok", f"{address} is open, reached from {own}")


def answer(access: LearnerEndpoint) -> list[Finding]:
    """Whether a learner of this protocol answers, and whether this host suits its run."""
    try:
        status = fetch(access, ANSWER_SECONDS, lambda _: None)
    except RefusedError as error:
        return [Finding("learner", "bad", printable(str(error)))]
    except UnavailableError:
        text = f"something listens, but no learner answered within {ANSWER_SECONDS:g} s"
        mend = "is it the learner's port (--bind), and not the weights port next to it?"
        return [Finding("learner", "bad", text, mend)]
    found = Finding("learner", "ok", f"answers: run {printable(status.run)}, protocol {PROTOCOL}, {key(access)}")
    network = [module("network", status.network)] if ":" in status.network else []
    like = likeness(status.versions, versions())
    return [found, clock(status.time, time.time()), like, playable(status.env), *network]


def key(access: LearnerEndpoint) -> str:
    if access.credential is None:
        return "takes peers without keys"
    return f"lets the key of {access.credential.pair.name} in"


def clock(there: float, here: float) -> Finding:
    """How far the two clocks (seconds since 1970) are apart; a difference harms only the comparison of logs."""
    apart = here - there
    text = f"this host's is {abs(apart):.1f} s {'ahead of' if apart > 0 else 'behind'} the learner's"
    if abs(apart) <= CLOCK_SECONDS:
        return Finding("clock", "ok", text)
    return Finding("clock", "warn", text, "let both keep time (NTP), or their logs cannot be laid side by side")


def likeness(there: Mapping[str, str], here: Mapping[str, str]) -> Finding:
    """Versions on both ends; they may differ, since the protocol version has been checked."""
    names = [name for name in here if name in there and here[name] != there[name]]
    if not names:
        return Finding("versions", "ok", "the same as the learner's")
    differ = ", ".join(f"{name} {here[name]} here, {printable(there[name])} there" for name in names)
    return Finding("versions", "ok", f"differ, which is all right: {differ}")


def playable(env: str) -> Finding:
    if module_of(env):
        return module("environment", env)
    try:
        find_spec(env)
    except EnvironmentMissingError as error:
        return Finding("environment", "bad", printable(str(error)))
    return Finding("environment", "ok", f"{env} is here")


def module(called: str, named: str) -> Finding:
    """Whether the module of a `module:Name` is here; it is not imported, because the learner names it."""
    holder = module_of(named)
    if not findable(holder):
        mend = f"install the package that has the module {printable(holder)}, or start a3cd in the folder it is in"
        return Finding(called, "bad", f"{printable(named)} is not here", mend)
    text = f"{printable(named)}: the module is here, and an actor imports it with --allow-module {printable(holder)}"
    return Finding(called, "ok", text)
