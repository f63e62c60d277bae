"""The protocol as tables: who sends which message, what answers it, and how a peer's membership changes.

The learner refuses by these tables, `common.wire.membership` follows them, and docs/protocol.md shows them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from common.errors import A3cdError, RefusedError, UnavailableError
from common.wire.messages import (
    Acknowledgement,
    Act,
    FleetOrder,
    FleetReport,
    Goodbye,
    Gradient,
    Heartbeat,
    Hello,
    Inspect,
    Message,
    Observe,
    Pull,
    RefusalCode,
    Refused,
    Role,
    Status,
    Stop,
    Trajectory,
    Weights,
    Welcome,
)

State = Literal["joining", "member"]
"""Of a peer towards the learner. It is over when the peer sends goodbye or is refused for good."""
Event = Literal["welcome", "refused unknown", "silence"]
PEERS: tuple[Role, ...] = ("actor", "launcher", "observer")


@dataclass(frozen=True)
class Port:
    """One of the learner's two TCP ports; peers only connect."""

    offset: int
    """Added to the port of `--bind`."""
    learner: str
    """Socket of the learner, which binds."""
    peer: str
    """Socket of the peers, which connect."""
    roles: tuple[Role, ...]
    carries: str


PORTS = (
    Port(0, "ROUTER", "DEALER", PEERS, "every message below, in both directions"),
    Port(1, "PUB", "SUB", ("actor",), "broadcasts of weights, from the learner"),
)


@dataclass(frozen=True)
class Rule:
    """When one message may be sent. All messages travel on the first port."""

    senders: tuple[Role | Literal["learner"], ...]
    receivers: tuple[Role | Literal["learner"], ...]
    state: State | None = "member"
    """Of the peer, at either end; None: any."""
    answers: tuple[type[Message], ...] = ()
    """What the receiver may answer with; a peer that is not a member is always answered with Refused."""
    body: str = ""
    """Content of frame 1; empty: there is no such frame."""


RULES: dict[type[Message], Rule] = {
    Hello: Rule(PEERS, ("learner",), "joining", (Welcome, Refused)),
    Welcome: Rule(("learner",), PEERS, "joining", body="for an actor the weights, unless the learner acts for it"),
    Refused: Rule(("learner",), PEERS, None),
    Gradient: Rule(("actor",), ("learner",), answers=(Acknowledgement, Refused), body="the packed gradient"),
    Trajectory: Rule(("actor",), ("learner",), answers=(Acknowledgement, Refused), body="`count` packed rollouts"),
    Acknowledgement: Rule(("learner",), ("actor",)),
    Pull: Rule(("actor",), ("learner",), answers=(Weights,)),
    Weights: Rule(("learner",), ("actor",), body="the weights; none if the actor has them already"),
    Observe: Rule(("actor",), ("learner",), answers=(Act, Refused), body="rewards and flags, and the observations"),
    Act: Rule(("learner",), ("actor",), body="one action for each environment of the group"),
    FleetOrder: Rule(("learner",), ("launcher",)),
    FleetReport: Rule(("launcher",), ("learner",), answers=(FleetOrder,)),
    Heartbeat: Rule((*PEERS, "learner"), (*PEERS, "learner"), answers=(Heartbeat,)),
    Inspect: Rule(("observer",), ("learner",), answers=(Status,)),
    Status: Rule(("learner",), ("observer",)),
    Stop: Rule(("learner",), PEERS),
    Goodbye: Rule(PEERS, ("learner",)),
}


def may_send(role: Role | Literal["learner"], message: Message) -> bool:
    """Whether `role` is a sender of `message`; a learner refuses any other with the code `role`."""
    return role in RULES[type(message)].senders


TRANSITIONS: dict[tuple[State, Event], State] = {
    ("joining", "welcome"): "member",
    ("joining", "refused unknown"): "joining",
    ("member", "welcome"): "member",
    ("member", "refused unknown"): "joining",
    ("member", "silence"): "joining",
}
"""How a peer's state follows from what it hears. `silence`: nothing for the welcome's `expiry_seconds`."""


@dataclass(frozen=True)
class Refusal:
    """What a refusal code means."""

    meaning: str
    error: type[A3cdError] | None
    """What ends the peer; None: it says hello again."""


REFUSALS: dict[RefusalCode, Refusal] = {
    "protocol": Refusal("its hello has another protocol number", RefusedError),
    "codec": Refusal("it has no codec that this run allows", RefusedError),
    "name": Refusal("its name is not the name of its key, and does not begin with `KEY/`", RefusedError),
    "role": Refusal("it sent a message that its role may not send", RefusedError),
    "quarantined": Refusal(
        "several of its gradients in a row could not be used; holds for this incarnation", UnavailableError
    ),
    "unknown": Refusal("it is not a member, or its message is of another run or epoch", None),
}
