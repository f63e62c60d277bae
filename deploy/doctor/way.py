"""The way from here to a learner, step by step: its name, its ports, its answer."""

from __future__ import annotations

import socket
import time

import zmq

from common.addresses import Address
from common.client import LearnerLink, introduce
from common.messages import PROTOCOL, Goodbye, Hello, Refused, Welcome
from common.service.logs import printable
from deploy.doctor.finding import Finding

CONNECT_SECONDS = 3.0
"""For a TCP connection to come about."""
ANSWER_SECONDS = 3.0
"""For a learner to answer a hello."""


def look(address: Address) -> list[Finding]:
    """The findings up to the first step that fails; those after it could not succeed."""
    findings = [name(address)]
    if findings[-1].state != "bad":
        findings += [port(address), port(address.with_port(address.port + 1), "weights port")]
    if findings[-1].state != "bad" and findings[-2].state != "bad":
        findings.append(answer(address))
    return findings


def name(address: Address) -> Finding:
    """Whether the host's name is known here."""
    try:
        known = socket.getaddrinfo(address.host.strip("[]"), address.port, type=socket.SOCK_STREAM)
    except OSError as error:
        mend = "write the learner's host name as other programs here reach it, or its IP address"
        return Finding("learner's name", "bad", f"{address.host}: {error.strerror}", mend)
    found = dict.fromkeys(str(entry[4][0]) for entry in known)
    return Finding("learner's name", "ok", f"{address.host} is {', '.join(found)}")


def port(address: Address, called: str = "learner's port") -> Finding:
    """Whether something listens there that this host can reach."""
    try:
        socket.create_connection((address.host.strip("[]"), address.port), CONNECT_SECONDS).close()
    except OSError as error:
        refused = isinstance(error, ConnectionRefusedError)
        mend = (
            "is the learner running? it listens to other hosts with --bind tcp://0.0.0.0:PORT, not with 127.0.0.1"
            if refused
            else "open the port, and the next one, in the firewalls between here and there"
        )
        return Finding(called, "bad", f"{address}: {error.strerror or 'no answer'}", mend)
    return Finding(called, "ok", f"{address} is open")


def answer(address: Address) -> Finding:
    """Whether a learner that speaks this protocol answers a hello."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    hello = introduce("observer")
    link = LearnerLink(context, address, hello)
    try:
        return _ask(link, hello)
    finally:
        link.close()
        context.term()


def _ask(link: LearnerLink, hello: Hello) -> Finding:
    until, sent = time.monotonic() + ANSWER_SECONDS, False
    while time.monotonic() < until:
        sent = sent or link.send(hello)
        link.socket.poll(50)
        for message, _ in link.receive():
            match message:
                case Welcome():
                    link.send(Goodbye(reason="doctor"))
                    return Finding("learner", "ok", f"answers: run {printable(message.run)}, protocol {PROTOCOL}")
                case Refused():
                    mend = "install the same a3cd on both ends" if message.code == "protocol" else ""
                    return Finding("learner", "bad", f"refuses: {printable(message.reason)}", mend)
                case _:
                    pass
    text = f"something listens, but no learner answered within {ANSWER_SECONDS:g} s"
    return Finding("learner", "bad", text, "is it the learner's port (--bind), and not the weights port next to it?")
