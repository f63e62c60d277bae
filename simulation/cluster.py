"""A learner, launchers and actors on one virtual clock and one simulated network.

    recorder = MemoryRecorder()
    cluster = Cluster(settings, Simulation(), recorder)
    cluster.run()
    recorder.rows, cluster.status()

Learner, actors and launchers are the daemons' own cores, with their environments, networks, gradients and optimizers;
only the shells differ. The same settings give the same run, to the last bit of the weights.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from random import Random

import msgspec

from common.run.folder import Checkpoint, RunFolder, RunRecord
from common.run.status import RunStatus
from common.settings.codec_names import NAMES
from common.settings.sections import Settings
from common.wire.messages import PROTOCOL, Hello, Role
from learner.arithmetic import set_arithmetic
from learner.build import assemble
from learner.core import LearnerCore
from simulation.actor_node import ActorNode, MakePlayer
from simulation.event_queue import EventQueue
from simulation.launcher_node import LauncherNode
from simulation.learner_node import LearnerNode, Recorder
from simulation.network import Connection, Network
from simulation.relay_node import RelayNode
from simulation.settings import LOOPBACK, Host, Incident, Relay, Simulation

MakeCore = Callable[[int, Checkpoint | None, float], LearnerCore]
"""Makes the core of a learner from its epoch, the checkpoint that it resumes from, and the time."""
EGRESS_SHARE = 0.8
"""Share of the bandwidth of a site's network that weights may use."""
STARTS = 0.8, 1.2
"""An actor's start takes `Costs.actor_start` times a factor between these two."""


class Cluster:
    def __init__(
        self,
        settings: Settings,
        simulation: Simulation,
        recorder: Recorder,
        *,
        folder: RunFolder | None = None,
        record: RunRecord | None = None,
        make_core: MakeCore | None = None,
        make_player: MakePlayer | None = None,
    ) -> None:
        """folder, record: the run's, for its status. make_core, make_player: None: the daemons' own.

        Raises the errors of `learner.build.assemble`.
        """
        self.queue = EventQueue()
        self.network = Network(self.queue, settings.seed, simulation.learner_mbit)
        self.actors: dict[str, ActorNode] = {}
        """The newest actor of each name, including actors that have ended."""
        self.launchers: dict[str, LauncherNode] = {}
        self.relays: dict[str, RelayNode] = {}
        """Relays by the names of their hosts."""
        self.sites: dict[str, Network] = {}
        """The networks of the relays' sites, by the names of their hosts."""
        self._simulation = simulation
        self._hosts: dict[str, Host] = {}
        """Hosts of launchers, relays and actors, by the names of these."""
        self._processes = 0
        self._starts = Random(f"{settings.seed} starts")
        self._recorder = recorder
        self._make_player = make_player
        folder = folder or RunFolder(Path("simulated"))
        record = record or RunRecord(run="simulated", created="", epoch=1, a3cd="")
        self._make_core = make_core or partial(_core, folder, record, settings)
        self.learner = self._start_learner(1, None)
        self._here = self.learner.core.run.spec.host
        hosts = simulation.hosts or [Host()]
        for host in hosts:
            if host.relay is not None:
                self.start_relay(host)
            self._start_launcher(host, alone=len(hosts) == 1)
        for incident in simulation.incidents:
            self.queue.at(incident.at, partial(self._happen, incident))

    @property
    def settings(self) -> Settings:
        """The run's settings as the learner has resolved them."""
        return self.learner.core.run.spec.settings

    @property
    def over(self) -> bool:
        return self.learner.finish is not None or self.queue.now >= self._simulation.most_seconds

    @property
    def hopeless(self) -> str:
        """The reason why no actor will ever play again; empty: one may."""
        given_up = [one for one in self.launchers.values() if one.core.gave_up]
        alive = any(one.exit_code is None for one in self.actors.values())
        if alive or not given_up or len(given_up) < len(self.launchers):
            return ""
        return next((one.last_error for one in self.actors.values() if one.last_error), "actors end at once")

    def run(self, until: float = float("inf")) -> None:
        """Runs until the run is over, or until the time `until`."""
        until = min(until, self._simulation.most_seconds)
        step = self.queue.step
        while self.learner.finish is None and step(until):
            pass
        if self.learner.finish is None:
            self.queue.run(until)

    def status(self) -> RunStatus:
        """Returns the status of the whole run so far; its times are virtual seconds."""
        if self.learner.finish is not None:
            return self.learner.finish.status
        return self.learner.core.run.status(self.queue.now, whole_run=True)

    # -- processes -----------------------------------------------------------------------------------------------------

    def _start_learner(self, epoch: int, checkpoint: Checkpoint | None) -> LearnerNode:
        core = self._make_core(epoch, checkpoint, self.queue.now)
        return LearnerNode(self.queue, self.network, core, self._simulation.costs, self._recorder)

    def restart_learner(self, after: float) -> None:
        """Kills the learner now; `after` seconds later it is back, in a new epoch, from its last checkpoint."""
        epoch = self.learner.core.run.spec.epoch
        self.learner.kill()

        def back() -> None:
            self.learner = self._start_learner(epoch + 1, self._recorder.read_newest())

        self.queue.after(after, back)

    def restart_launcher(self, name: str, after: float, slots: int = 0) -> None:
        """Kills a launcher now; `after` seconds later it is back. Its actors outlive it.

        slots: number of slots that it then has; 0: as many as before.
        """
        launcher = self.launchers[name]
        launcher.kill()

        def back() -> None:
            if self.launchers[name] is launcher:
                host = msgspec.structs.replace(self._hosts[name], slots=slots or launcher.core.slots)
                self._start_launcher(host, found=launcher.outlived)

        self.queue.after(after, back)

    def start_relay(self, host: Host) -> RelayNode:
        """Starts the host's relay, or a new process in place of one that has ended."""
        name, relay = host.name, host.relay or Relay()
        self._hosts[name] = host
        if name not in self.sites:
            self.sites[name] = Network(self.queue, self.settings.seed + len(self.sites) + 1, relay.mbit)
        self.relays[name] = node = RelayNode(
            self.queue,
            self.network,
            self.sites[name],
            self._hello("relay", name, host),
            self._simulation.costs,
            mbit=EGRESS_SHARE * relay.mbit,
            link=host.link,
            address=self._address(host),
        )
        return node

    def restart_relay(self, name: str, after: float) -> None:
        """Kills a relay now; `after` seconds later it is back."""
        relay = self.relays[name]
        relay.kill()

        def back() -> None:
            if self.relays[name] is relay:
                self.start_relay(self._hosts[name])

        self.queue.after(after, back)

    def _start_launcher(self, host: Host, *, alone: bool = False, found: Mapping[int, ActorNode] | None = None) -> None:
        scaling = self.settings.scaling
        slots = host.slots or max(1, scaling.most)
        self._hosts[host.name] = host
        self.launchers[host.name] = LauncherNode(
            self.queue,
            self.network,
            self._hello("launcher", host.name, host, slots=slots),
            self._starter(host),
            start_seconds=partial(self._start_seconds, host),
            prestart=min(scaling.minimum, slots) if alone else 0,
            found=found,
            link=host.link,
            address=self._address(host),
        )

    def _start_seconds(self, host: Host) -> float:
        """Returns random seconds: if all starts took equally long, actors of one pace would always send at once."""
        return self._simulation.costs.actor_start / host.speed * self._starts.uniform(*STARTS)

    def _starter(self, host: Host) -> Callable[[str, str, Callable[[int], object]], ActorNode]:
        def start(name: str, launcher: str, ended: Callable[[int], object]) -> ActorNode:
            return self.start_actor(name, self._hosts[host.name], launcher=launcher, ended=ended)

        return start

    def start_actor(
        self,
        name: str,
        host: Host,
        *,
        launcher: str = "",
        ended: Callable[[int], object] = int,
        make_player: MakePlayer | None = None,
    ) -> ActorNode:
        """Starts an actor that connects to its host's relay, or else to the learner; it says hello at once."""
        self._hosts[name] = host
        self.actors[name] = actor = ActorNode(
            self.queue,
            self._network(host),
            self._hello("actor", name, host, launcher=launcher),
            self._simulation.costs,
            ended=ended,
            speed=host.speed,
            link=host.relay.link if host.relay is not None else host.link,
            address=self._address(host),
            make_player=make_player or self._make_player,
        )
        return actor

    def _hello(self, role: Role, name: str, host: Host, *, launcher: str = "", slots: int = 0) -> Hello:
        self._processes += 1
        return Hello(
            protocol=PROTOCOL,
            role=role,
            name=name,
            incarnation=f"{self._processes:032x}",
            host=self._here if host.local else f"simulated-{host.name}",
            pid=self._processes,
            codecs=[] if role == "launcher" else list(NAMES),
            launcher=launcher,
            slots=slots,
        )

    def _address(self, host: Host) -> str:
        return "127.0.0.1" if host.local else f"10.0.0.{1 + [*self._hosts].index(host.name) % 250}"

    # -- what goes wrong -----------------------------------------------------------------------------------------------

    def _happen(self, incident: Incident) -> None:
        match incident.kind:
            case "join":
                host = self._hosts.get(incident.who) or next(iter(self._hosts.values()))
                name = "joined" if incident.who in ("", *self.launchers) else incident.who
                if name in self.actors and self.actors[name].exit_code is None:
                    name = f"{name}-{self._processes}"
                self.start_actor(name, msgspec.structs.replace(host, speed=incident.speed * host.speed))
            case "leave":
                for actor in self._meant(incident.who):
                    actor.leave()
            case "crash":
                for actor in self._meant(incident.who):
                    actor.kill()
            case "stall":
                for actor in self._meant(incident.who):
                    actor.stall(incident.seconds)
            case "relay-crash":
                for name in [name for name in self.relays if incident.who in ("", name)]:
                    self.restart_relay(name, incident.seconds)
            case "learner-crash":
                if self.learner.alive:
                    self.restart_learner(incident.seconds)
            case "launcher-crash":
                for name in [name for name in self.launchers if incident.who in ("", name)]:
                    self.restart_launcher(name, incident.seconds, incident.slots)
            case "learner-stall":
                self.learner.stall(incident.seconds)
            case "partition":
                for network, connection in self._cables(incident.who):
                    network.cut(connection)
            case "heal":
                for network, connection in self._cables(incident.who):
                    network.heal(connection)

    def calm(self) -> None:
        """From now on every cable is whole, and every link is as good as loopback."""
        for network in (self.network, *self.sites.values()):
            network.calm()
        for name, host in self._hosts.items():
            self._hosts[name] = msgspec.structs.replace(host, link=LOOPBACK, relay=host.relay and Relay())

    def _meant(self, who: str) -> list[ActorNode]:
        """Returns the living actors called `who`, or on the host of that name; empty: all."""
        return [
            actor
            for name, actor in self.actors.items()
            if actor.exit_code is None and (not who or who == name or self._hosts[name].name == who)
        ]

    def _cables(self, who: str) -> list[tuple[Network, Connection]]:
        """Returns the connections of `who` to the learner; to a relay only if `who` is an actor's name or empty."""
        cables = []
        for actor in self._meant(who):
            network = self._network(self._hosts[actor.name])
            if network is self.network or who in ("", actor.name):
                cables.append((network, actor.connection))
        for ends in (self.launchers, self.relays):
            cables += [(self.network, one.connection) for name, one in ends.items() if who in ("", name)]
        return cables

    def _network(self, host: Host) -> Network:
        """Returns the network that the host's actors are on."""
        return self.network if host.relay is None else self.sites[host.name]


def _core(
    folder: RunFolder, record: RunRecord, settings: Settings, epoch: int, checkpoint: Checkpoint | None, now: float
) -> LearnerCore:
    """Makes the core of a real learner."""
    set_arithmetic(settings.optimizer.threads)
    record = msgspec.structs.replace(record, epoch=epoch)
    parts = assemble(folder, record, settings, checkpoint, now=now)
    return LearnerCore(parts.run, parts.weights, parts.exchange, now)
