"""One peer in the run, as the learner or a relay knows it."""

import math
from dataclasses import dataclass
from typing import Any

import msgspec

from common.host.load import Load
from common.host.service.logs import cut
from common.run.status import FleetStatus, PeerStatus, RelayStatus
from common.wire.messages import FleetReport, Heartbeat, Hello, SiteReport
from learner.absentees import Absentees
from learner.meters import Rate
from learner.replay_window import Incarnation

PREPARING = "preparing"
"""The state of a peer before its first heartbeat."""
PREPARING_PATIENCE = 10.0
"""How many times longer a worker may be silent while it prepares: it is deaf while it loads and makes environments."""
ERROR_SECONDS = 600.0
"""For how long an error is shown after a peer last told it; later on, its state says more."""


@dataclass
class Peer:
    hello: Hello
    seen: float
    """When it was last heard, moved forward by the time in which the learner has not listened since."""
    rate: Rate
    key_name: str = ""
    place: str = ""
    """Its key, or the address that it connects from: what it cannot choose freely."""
    near: bool = False
    """Whether it runs on this host, so that no network link carries what is sent to it."""
    codec: str = ""
    seed: int = 0
    state: str = PREPARING
    last_error: str = ""
    erred: float = -math.inf
    """When it told that error."""
    plays: bool = False
    """Whether it has sent contributions or rollouts."""
    frames: int = 0
    claimed_steps: int = 0
    """Steps that it says it has played, whether or not they were used."""
    finished_steps: int = 0
    """Steps of its finished episodes."""
    gradients: int = 0
    stale: int = 0
    refused: int = 0
    late: int = 0
    """Steps that have waited for it in vain, but for those that it has made good for."""
    left_at: int = 0
    """Version at the last of these steps."""
    bad_in_a_row: int = 0
    offences: int = 0
    """Messages that no honest actor sends, however good their bodies: beyond its credit, or of another epoch."""
    lag: float = 0.0
    ordered: int = 0
    report: FleetReport | None = None
    site: SiteReport | None = None
    """The last report of a relay; None: it has not reported, or is not a relay."""
    load: Load | None = None
    """The load of its host; None: it has not told it."""
    absentees: Absentees | None = None
    """The absentees of a launcher that has reported."""
    reported: float = -math.inf
    """When this observer was last sent a status."""

    def __post_init__(self) -> None:
        self.incarnation: Incarnation = self.hello.name, self.hello.incarnation
        """Its name, and the identity of its process among all of that name."""

    def is_of(self, hello: Hello, key_name: str) -> bool:
        """Whether this peer is the process that says `hello` under the key of this name."""
        mine = self.hello.incarnation, self.hello.name, self.hello.role, self.key_name
        return mine == (hello.incarnation, hello.name, hello.role, key_name)

    @property
    def patience(self) -> float:
        """How long it may be silent, as a multiple of exchange.expiry_seconds."""
        prepares = self.state == PREPARING and self.hello.role in ("actor", "evaluator")
        return PREPARING_PATIENCE if prepares else 1.0

    @property
    def actors(self) -> int:
        """Number of actors that it stands for: an actor for itself, a relay for the actors of its site."""
        if self.site is not None:
            return self.site.actors
        return int(self.hello.role == "actor")

    @property
    def slots(self) -> int:
        """Most actors that a launcher can run now, according to its last report."""
        return self.hello.slots if self.report is None else min(self.report.slots, self.hello.slots)

    def tells(self, now: float, message: Heartbeat) -> str:
        """Take in the peer's state from its heartbeat; return the error that it reports, for the log, or ""."""
        self.state = message.state or self.state
        if message.memory_total:
            self.load = Load(message.processor, message.memory, message.memory_total)
        if not message.last_error:
            return ""
        self.last_error, self.erred = cut(message.last_error), now  # a report holds those of all actors
        return cut(f"{self.hello.name}: {message.last_error}")

    def smooth_lag(self, lag: int) -> None:
        """Add a lag to the exponential mean over about the last twenty gradients."""
        self.lag = lag if self.gradients == 0 else self.lag + (lag - self.lag) / 20

    def _sender_status(self, now: float) -> dict[str, Any]:
        """Return the fields of SenderStatus."""
        hello = self.hello
        return {
            "name": hello.name,
            "host": hello.host,
            "pid": hello.pid,
            "state": self.state,
            "last_error": self.last_error if now - self.erred < ERROR_SECONDS else "",
            "frames": self.frames,
            "frames_per_second": self.rate.value(now),
            "gradients": self.gradients,
            "stale": self.stale,
            "refused": self.refused,
            "lag": self.lag,
            "seen": now - self.seen,
        }

    def status(self, now: float) -> PeerStatus:
        return PeerStatus(launcher=self.hello.launcher, versions=self.hello.versions, **self._sender_status(now))

    def relay_status(self, now: float) -> RelayStatus:
        site = self.site or SiteReport(actors=0)
        return RelayStatus(
            **self._sender_status(now),
            actors=site.actors,
            site_stale=site.stale,
            site_refused=site.refused,
            site={name: figure for _, name, figure in site.named},
        )

    def fleet_status(self) -> FleetStatus:
        hello = self.hello
        report = self.report or FleetReport(slots=hello.slots, running=0, starting=0, failed=0)
        figures = msgspec.structs.asdict(report)
        del figures["names"]
        return FleetStatus(name=hello.name, host=hello.host, ordered=self.ordered, **figures)
