"""The settings of a simulated world: how long things take, how hosts are connected, and what goes wrong when."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from common.errors import ConfigurationError
from common.settings.sections import Amount, Count, Fraction, NonNegative, Positive, Section
from common.settings.toml import document_of, value_of


class Costs(Section, frozen=True):
    """Seconds that the parts of a run take on a host of speed 1; `a3cd simulate --measure` measures this host's."""

    batch_step: NonNegative = 2e-4
    """Actor's time per step of its batch, whatever its number of environments: mostly the network's actions."""
    environment_step: NonNegative = 1e-5
    """Actor's time per step of one environment; added to a step of the batch once for each environment."""
    gradient: NonNegative = 1e-3
    """Actor's time per gradient, whatever the rollout's length (exchange.kind = "gradients")."""
    gradient_step: NonNegative = 2e-6
    """Actor's further time per gradient, for each step of an environment in the rollout."""
    message: NonNegative = 5e-5
    """Learner's time per message that it reads."""
    message_mib: NonNegative = 1e-3
    """Learner's further time per MiB of a message's body."""
    optimizer_step: NonNegative = 2e-4
    """Learner's time per optimizer step."""
    learner_frame: NonNegative = 1e-5
    """Learner's time per frame that it computes with (exchange.kind = "trajectories" or "actions")."""
    relay_sum: NonNegative = 1e-4
    """Relay's time per sum that it sends; reading a message takes it as long as the learner."""
    actor_start: NonNegative = 1.0
    """Time from the launcher's order to the actor's first hello; each start takes up to a fifth more or less."""
    actor_prepare: NonNegative = 0.3
    """Time from the actor's welcome until it plays, in which it makes environments and network."""

    def reading(self, frames: Sequence[bytes]) -> float:
        """Return the seconds that a learner or a relay takes to read a message: a header, and a body if it has one."""
        return self.message + sum(map(len, frames[1:])) / 2**20 * self.message_mib


class Link(Section, frozen=True):
    """A link between a host and the learner, the same both ways; messages arrive in order and whole, as with TCP."""

    delay: NonNegative = 1e-4
    """Latency in seconds, besides the time that a message's bytes take."""
    jitter: NonNegative = 0.0
    """Largest further delay in seconds, drawn for each message."""
    mbit: NonNegative = 0.0
    """Bandwidth in Mbit/s; 0: without a limit."""
    loss: Fraction = 0.0
    """Share of packets that are lost, and sent again after a while."""
    drop: Fraction = 0.0
    """Share of messages that vanish, which never happens with TCP; for tests of code that must survive it."""
    duplicate: Fraction = 0.0
    """Share of messages that arrive twice; likewise."""
    reorder: Fraction = 0.0
    """Share of messages that others may overtake; likewise."""
    survive: Fraction = 0.0
    """Share of messages to the learner that arrive although their connection has broken meanwhile; likewise."""


LOOPBACK = Link()


class Relay(Section, frozen=True):
    """A relay between the learner and the actors of a host, or of several hosts with actors started by hand."""

    mbit: NonNegative = 0.0
    """Bandwidth in Mbit/s from the relay to all its actors together; 0: without a limit."""
    link: Link = LOOPBACK
    """Link between the relay and each actor; its link to the learner is the host's."""


class Host(Section, frozen=True):
    """A host on which a launcher runs actors."""

    name: str = "here"
    slots: Amount = 0
    """Most actors; 0: as many as the run can want."""
    speed: Positive = 1.0
    """Speed of its actors: work that costs one second takes 1/speed seconds here."""
    local: bool = True
    """Whether this is the learner's own host, where gradients travel uncompressed."""
    link: Link = LOOPBACK
    relay: Relay | None = None
    """The relay that its actors connect to; its launcher connects to the learner. None: so do its actors."""


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
    """join: an actor is started by hand. leave: an actor is asked to leave. crash: an actor's process is killed.
    partition: a cable is cut, until heal. stall, learner-stall: the process stands still for `seconds`. launcher-crash:
    the launcher is back after `seconds`, with `slots`, and finds its actors. relay-crash: the relay is back after
    `seconds`, and its actors rejoin. learner-crash: the learner is back after `seconds`, in a new epoch, from its last
    checkpoint."""
    who: str = ""
    """Name of an actor (`here-0` is the first of the launcher `here`) or of a host; empty: all."""
    seconds: NonNegative = 0.0
    speed: Positive = 1.0
    """Speed of an actor that joins, as a factor on its host's."""
    slots: Amount = 0
    """Slots of a launcher that comes back; 0: as many as it had."""


class Simulation(Section, frozen=True):
    """The whole world; `a3cd simulate --world` takes a TOML file of this form."""

    costs: Costs = Costs()
    learner_mbit: NonNegative = 0.0
    """Bandwidth in Mbit/s from the learner's host to all peers together; 0: without a limit."""
    hosts: list[Host] = msgspec.field(default_factory=list)
    """Hosts of the actors; empty: one, the learner's own, with as many slots as the run can want."""
    incidents: list[Incident] = msgspec.field(default_factory=list)
    most_seconds: Count = 10_000_000
    """Virtual seconds after which a run that has not ended is stopped."""


def read(path: Path) -> Simulation:
    """Read a simulation from a TOML file; raises ConfigurationError."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from error
    return _convert(document_of(content, str(path)), str(path))


def override(simulation: Simulation, assignments: Iterable[str]) -> Simulation:
    """Apply assignments such as `costs.optimizer_step=0.01`; raises ConfigurationError."""
    document: dict[str, Any] = msgspec.to_builtins(simulation)
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        *sections, key = path.strip().split(".")
        table: Any = document
        for name in sections:
            table = table.get(name) if isinstance(table, dict) else None
        if not equals or not isinstance(table, dict) or key not in table:
            raise ConfigurationError(
                f"--world-set {assignment}: must be key=value, such as costs.optimizer_step=1e-3; there are "
                f"{', '.join(f'costs.{name}' for name in Costs.__struct_fields__)}, learner_mbit and most_seconds"
            )
        table[key] = value_of(text.strip())
    return _convert(document, "--world-set")


def _convert(document: dict[str, Any], source: str) -> Simulation:
    try:
        return msgspec.convert(document, Simulation)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{source}: {error}") from error
