"""What a simulation is told of the world: how long things take, how hosts are connected, and what goes wrong when."""

import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from common.errors import ConfigurationError
from common.settings.sections import Amount, Count, Fraction, NonNegative, Positive, Section


class Costs(Section, frozen=True):
    """Seconds that the parts of a run take on a host of speed 1; `a3cd simulate --measure` finds those of this one."""

    batch_step: NonNegative = 2e-4
    """Of a step of an actor's batch, however many environments it has: the network's actions, above all."""
    environment_step: NonNegative = 1e-5
    """Of a step of one environment; a step of the batch takes as many more."""
    gradient: NonNegative = 1e-3
    """Of the gradient of a rollout, however long (exchange.kind = "gradients")."""
    gradient_step: NonNegative = 2e-6
    """For each step of an environment in the rollout, besides."""
    message: NonNegative = 5e-5
    """Of the learner, for each message that it reads."""
    message_mib: NonNegative = 1e-3
    """Of the learner, for each MiB of a message's body, besides."""
    optimizer_step: NonNegative = 2e-4
    """Of the learner, for each step to new weights."""
    learner_frame: NonNegative = 1e-5
    """Of the learner, for each frame that it computes for (exchange.kind = "trajectories" or "actions")."""
    relay_sum: NonNegative = 1e-4
    """Of a relay, for each sum that it sends; messages take it as long as the learner."""
    actor_start: NonNegative = 1.0
    """From an order of the launcher to the actor's first hello, a fifth more or less."""
    actor_prepare: NonNegative = 0.3
    """From the actor's welcome until it plays: environments and network are made."""

    def reading(self, frames: Sequence[bytes]) -> float:
        """Seconds that a learner, or a relay, takes for a message: a header, and a body if it has one."""
        return self.message + sum(map(len, frames[1:])) / 2**20 * self.message_mib


class Link(Section, frozen=True):
    """Between a host and the learner, the same in both directions. Messages arrive in order and whole, as with TCP."""

    delay: NonNegative = 1e-4
    """Seconds on the way, besides the time that a message's bytes take."""
    jitter: NonNegative = 0.0
    """Largest further delay, drawn for each message."""
    mbit: NonNegative = 0.0
    """Mbit/s of the link; 0: without a limit."""
    loss: Fraction = 0.0
    """Share of packets that are lost, and sent again after a while."""
    drop: Fraction = 0.0
    """Share of messages that vanish, which TCP never lets happen; to test what must bear it."""
    duplicate: Fraction = 0.0
    """Share of messages that arrive twice; likewise."""
    reorder: Fraction = 0.0
    """Share of messages that others may overtake; likewise."""
    survive: Fraction = 0.0
    """Share of messages to the learner that arrive though their connection has broken meanwhile; likewise."""


LOOPBACK = Link()


class Relay(Section, frozen=True):
    """Between the learner and the actors of a host, or of several with actors started by hand."""

    mbit: NonNegative = 0.0
    """Mbit/s that it can send to the actors, to all of them together; 0: without a limit."""
    link: Link = LOOPBACK
    """Between it and each actor; that to the learner is the host's."""


class Host(Section, frozen=True):
    """Where a launcher runs actors."""

    name: str = "here"
    slots: Amount = 0
    """Most actors; 0: as many as the run can want."""
    speed: Positive = 1.0
    """What takes an actor a second by the costs takes it 1/speed here."""
    local: bool = True
    """The learner's own host: gradients travel as they are."""
    link: Link = LOOPBACK
    relay: Relay | None = None
    """Its actors are behind one; its launcher is not."""


class Incident(Section, frozen=True):
    """Something that happens from outside."""

    at: NonNegative
    """Seconds since the beginning."""
    kind: Literal[
        "join",
        "leave",
        "crash",
        "partition",
        "heal",
        "stall",
        "launcher-crash",
        "relay-crash",
        "learner-stall",
        "learner-crash",
    ]
    """join: an actor by hand. leave: it is asked to go. crash: its process is gone. partition: a cable is cut, until
    heal. stall, learner-stall: the process stands still for `seconds`. launcher-crash: it is back after `seconds`, with
    `slots`, and finds its actors. relay-crash: it is back after `seconds`, and its actors join it. learner-crash: it is
    back after `seconds`, in a new epoch, from its checkpoint."""
    who: str = ""
    """Name of an actor (`here-0` is the first of the launcher `here`) or of a host; empty: all."""
    seconds: NonNegative = 0.0
    speed: Positive = 1.0
    """Of an actor that joins."""
    slots: Amount = 0
    """Of a launcher that comes back; 0: as many as it had."""


class Simulation(Section, frozen=True):
    """All of it; a TOML file of this form is the argument of `a3cd simulate --world`."""

    costs: Costs = Costs()
    learner_mbit: NonNegative = 0.0
    """Mbit/s that the learner's host can send, to all peers together; 0: without a limit."""
    hosts: list[Host] = msgspec.field(default_factory=list)
    """Empty: one with as many slots as the run can want, the learner's own."""
    incidents: list[Incident] = msgspec.field(default_factory=list)
    most_seconds: Count = 10_000_000
    """Virtual; a run that has not ended by then is stopped."""


def read(path: Path) -> Simulation:
    """Raises ConfigurationError."""
    try:
        return _convert(tomllib.loads(path.read_text(encoding="utf-8")), str(path))
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from error
    except ValueError as error:  # no UTF-8, or no TOML
        raise ConfigurationError(f"{path}: is no TOML: {error}") from error


def override(simulation: Simulation, assignments: Iterable[str]) -> Simulation:
    """Apply assignments such as `costs.optimizer_step=0.01`; raises ConfigurationError."""
    document: dict[str, Any] = msgspec.to_builtins(simulation)
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        *sections, key = path.strip().split(".")
        table = document
        for name in sections:
            table = table.get(name, {})
        if not equals or not isinstance(table, dict) or key not in table:
            raise ConfigurationError(
                f"--world-set {assignment}: must be key=value, such as costs.optimizer_step=1e-3; there are "
                f"{', '.join(f'costs.{name}' for name in Costs.__struct_fields__)}, learner_mbit and most_seconds"
            )
        try:
            table[key] = tomllib.loads(f"value = {text}")["value"]
        except ValueError as error:
            raise ConfigurationError(f"--world-set {assignment}: {text} is no value: {error}") from error
    return _convert(document, "--world-set")


def _convert(document: dict[str, Any], source: str) -> Simulation:
    try:
        return msgspec.convert(document, Simulation)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{source}: {error}") from error
