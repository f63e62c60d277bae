"""The protocol as tables: who sends which message, what answers it, and what a refusal means.

The learner refuses by these tables, and docs/protocol.md shows them.
"""

from dataclasses import dataclass
from typing import Literal

from common.errors import A3cdError, RefusedError, UnavailableError
from common.wire import messages
from common.wire.messages import Acknowledgement, Message, RefusalCode, Refused, Role, Welcome

State = Literal["joining", "member"]
"""State of a peer towards the learner. It ends when the peer sends goodbye or is refused for good."""
Side = Role | Literal["learner"]
PEERS: tuple[Role, ...] = ("actor", "launcher", "observer", "evaluator", "relay", "operator")
ACTOR: tuple[Role, ...] = ("actor",)
LAUNCHER: tuple[Role, ...] = ("launcher",)
OBSERVER: tuple[Role, ...] = ("observer",)
EVALUATOR: tuple[Role, ...] = ("evaluator",)
OPERATOR: tuple[Role, ...] = ("operator",)
RELAY: tuple[Role, ...] = ("relay",)
SENDERS: tuple[Role, ...] = ("actor", "relay")
"""Roles that send gradients or rollouts, and receive the broadcast."""
PULLERS: tuple[Role, ...] = ("actor", "evaluator", "relay")
LEARNER: tuple[Side, ...] = ("learner",)
EVERYONE: tuple[Side, ...] = (*PEERS, *LEARNER)


@dataclass(frozen=True)
class Rule:
    """When one message may be sent. All messages travel on the first port."""

    senders: tuple[Side, ...]
    receivers: tuple[Side, ...]
    state: State | None = "member"
    """State that the peer, whichever end it is, must be in; None: any."""
    answers: tuple[type[Message], ...] = ()
    """Messages that may answer this one; a peer that is not a member is always answered with Refused."""
    body: str = ""
    """Content of frame 1; empty: there is no such frame."""


RULES: dict[type[Message], Rule] = {
    messages.Hello: Rule(PEERS, LEARNER, "joining", (Welcome, Refused)),
    messages.Welcome: Rule(
        LEARNER, PEERS, "joining", body="for actors and relays the weights, unless the learner acts"
    ),
    messages.Refused: Rule(LEARNER, PEERS, None),
    messages.Gradient: Rule(SENDERS, LEARNER, answers=(Acknowledgement, Refused), body="the packed gradient"),
    messages.Trajectory: Rule(ACTOR, LEARNER, answers=(Acknowledgement, Refused), body="`count` packed rollouts"),
    messages.Acknowledgement: Rule(LEARNER, SENDERS),
    messages.Pull: Rule(PULLERS, LEARNER, answers=(messages.Weights,)),
    messages.Weights: Rule(LEARNER, PULLERS, body="the weights; none if the peer has them already"),
    messages.Evaluation: Rule(EVALUATOR, LEARNER, answers=(Refused,)),
    messages.Observe: Rule(ACTOR, LEARNER, answers=(messages.Act, Refused), body="rewards, flags and observations"),
    messages.Act: Rule(LEARNER, ACTOR, body="one action for each environment of the group"),
    messages.FleetOrder: Rule(LEARNER, LAUNCHER),
    messages.FleetReport: Rule(LAUNCHER, LEARNER, answers=(messages.FleetOrder,)),
    messages.SiteReport: Rule(RELAY, LEARNER),
    messages.Heartbeat: Rule(EVERYONE, EVERYONE, answers=(messages.Heartbeat,)),
    messages.Inspect: Rule(OBSERVER, LEARNER, answers=(messages.Status,)),
    messages.Status: Rule(LEARNER, OBSERVER),
    messages.Halt: Rule(OPERATOR, LEARNER, answers=(messages.Saved, Refused)),
    messages.Save: Rule(OPERATOR, LEARNER, answers=(messages.Saved, Refused)),
    messages.Saved: Rule(LEARNER, OPERATOR),
    messages.Scale: Rule(OPERATOR, LEARNER, answers=(messages.Scaled, Refused)),
    messages.Scaled: Rule(LEARNER, OPERATOR),
    messages.Stop: Rule(LEARNER, PEERS),
    messages.Goodbye: Rule(PEERS, LEARNER),
}


def may_send(role: Side, message: Message) -> bool:
    """Whether `role` is a sender of `message`; a learner refuses any other with the code `role`."""
    return role in RULES[type(message)].senders


@dataclass(frozen=True)
class Refusal:
    """What a refusal code means."""

    meaning: str
    error: type[A3cdError] | None
    """The error that ends a command that a person waits for; None: even such a command says hello again."""
    passes: bool = True
    """Whether it may hold only for a while, so that a daemon says hello again, with growing pauses."""


REFUSALS: dict[RefusalCode, Refusal] = {
    "protocol": Refusal("its hello has another protocol number, or cannot be read", RefusedError),
    "codec": Refusal("it has no codec that this run allows", RefusedError),
    "name": Refusal("its name is not the name of its key, and does not begin with `KEY/`", RefusedError),
    "role": Refusal(
        "its key, or without keys its address, may not have this role; it sent a message that its role may not send; "
        "or the run has no room for one more of its role",
        RefusedError,
    ),
    "quarantined": Refusal(
        "what it sent could not be used; holds for its name, for some minutes. A process that was a member ends; one "
        "that was not yet waits until it is let in",
        UnavailableError,
        passes=False,
    ),
    "replaced": Refusal("a launcher of its name came later, and is a member", None),
    "relay": Refusal(
        "it is a relay, and what the actors of this run send cannot be added up on the way: it is no gradients, or the "
        "learner waits for each actor's",
        RefusedError,
        passes=False,
    ),
    "order": Refusal("an operator's order that cannot be carried out, or be read: nothing has changed", RefusedError),
    "unknown": Refusal("it is not a member, or its message is of another run or epoch", None),
}
