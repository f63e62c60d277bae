"""A relay between a learner and the actors of one site, without sockets, clocks or files: messages and time in, effects
out.

    actors --gradients--> judged, added up --sum--> learner --weights--> kept, passed on --> actors

To its actors it is a learner that has applied their gradients once they are in a sum; to its learner it is an actor
whose rollouts are those of many. It keeps nothing on disk: a new relay of its name takes over, and its actors rejoin.
"""

from collections.abc import Collection, Iterable, Mapping

from actor.effects import Effect as LearnerEffect
from actor.effects import Leave, Prepare, Warn
from actor.outbox import Send as ToLearner
from common.errors import WireError
from common.host.service.logs import cut
from common.settings.sections import Settings
from common.wire.frames import Buffer
from common.wire.membership import Membership
from common.wire.messages import AnyMessage, Contribution, Goodbye, Heartbeat, Hello, Pull, Stop, Welcome
from common.wire.protocol import may_send
from learner.attention import Attention
from learner.connections import Progress
from learner.effects import Disconnect, Log, Publish, refuse, refuse_noise, refuse_stranger
from learner.effects import Effect as SiteEffect
from learner.effects import Send as ToSite
from learner.peer import Peer
from learner.run import RunSpec
from relay.effects import Effect, Serve
from relay.gradients import Gradients
from relay.site import Site
from relay.sum_player import SumPlayer
from relay.uplink import Uplink
from relay.weights import KeptWeights

LOOK_SECONDS = 1.0
"""Interval between two searches for silent actors."""
DISMISS_SECONDS = 3.0
"""Longest wait for the actors' goodbyes at the end of a run."""
REMIND_SECONDS = 0.5
"""Interval between two stops to actors that have not said goodbye."""


class RelayCore:
    def __init__(self, hello: Hello, now: float, *, learner: str, weights_port: int, mbit: float = 0.0) -> None:
        """`learner`: its address, for messages to people; `weights_port`: the port of the relay's own broadcasts.

        `mbit`: bandwidth for weights in the site's network, in 10^6 bits a second; 0: as `exchange.egress_mbit` says.
        """
        self._site = Site(hello, learner, weights_port)
        self._uplink = Uplink(hello, now, self._site.report)
        self._mbit = mbit
        self._spec: RunSpec | None = None
        self._weights: KeptWeights | None = None
        self._gradients: Gradients | None = None
        self._attention = Attention(now)
        self._look_due = now
        self._last_word: Stop | None = None
        """The stop that tells actors why the relay has ended; None: it has not."""

    @property
    def membership(self) -> Membership:
        """The relay's membership in the learner's run."""
        return self._uplink.membership

    @property
    def present(self) -> int:
        """Number of actors that have not left."""
        return len(self._site.peers.everyone())

    @property
    def deadline(self) -> float:
        """The time when `tick` next has something to do, unless a message comes first."""
        parts = [self._uplink.deadline, self._look_due]
        if self._weights is not None and self._gradients is not None:
            parts += [self._weights.deadline, self._gradients.deadline]
        return min(parts)

    # -- the learner ---------------------------------------------------------------------------------------------------

    def heard(self, now: float, message: AnyMessage, body: Buffer | None) -> list[Effect]:
        """Handles one message of the learner. Raises A3cdError if it refuses this relay for good."""
        effects = self._own(self._uplink.handle(now, message, body))
        return effects + self._settle(now)

    def broadcast(self, now: float, frame: bytes) -> list[Effect]:
        """Takes weights from a frame of the learner's broadcast."""
        found, news = self._uplink.hear(now, frame)
        if news is not None and self._weights is not None:
            self._weights.heard(frame, news.version, delta=news.format == "delta")
        return self._own(found) + self._settle(now)

    def connected(self, now: float) -> None:
        """There is a new connection to the learner."""
        self._uplink.connected(now)

    def arrived(self, now: float, count: int) -> None:
        """`count` more bytes have reached the learner."""
        self._uplink.outbox.arrived(now, count)

    def unsent(self, now: float, send: ToLearner) -> None:
        """`send` failed: there was no connection to the learner."""
        self._uplink.unsent(now, send)

    def _own(self, effects: Iterable[LearnerEffect]) -> list[Effect]:
        """Turns the uplink's effects into the relay's."""
        done: list[Effect] = []
        for effect in effects:
            match effect:
                case Prepare(welcome, settings, body):
                    done += self._begin(welcome, settings, body)
                case Warn(text):
                    done.append(Log("warning", text, key=text))
                case Leave(reason):
                    done += [*self._end(reason, final=True), effect]
                case _:
                    done.append(effect)
        return done

    def _begin(self, welcome: Welcome, settings: Settings, body: Buffer | None) -> list[Effect]:
        """Begins a new run, or a new epoch of it."""
        spec = self._spec = _spec(welcome, settings, self.membership.hello.host)
        weights = self._weights = KeptWeights(spec.epoch, self._mbit or settings.exchange.egress_mbit)
        total = self._uplink.player = SumPlayer(spec, welcome.codec, weights)
        if body is not None:
            weights.load(welcome.version, bytes(body), delta=False)
        site, uplink = self._site, self._uplink
        self._gradients = Gradients(
            spec, site.peers, weights, total, site.count, actors=self._actors_in_run, warn=uplink.say
        )
        return [Serve(welcome.weights_port, spec), *self._from_site(site.begin(spec, welcome, weights))]

    def _actors_in_run(self) -> int:
        """Returns the number of actors in the whole run; the learner may not know this site's newest yet."""
        return max(self._uplink.actors, self._site.peers.actors)

    # -- the site ------------------------------------------------------------------------------------------------------

    def handle(
        self,
        now: float,
        routing_id: bytes,
        message: AnyMessage,
        body: Buffer | None,
        key_name: str = "",
        address: str = "",
    ) -> list[Effect]:
        """Handles one message of an actor; `key_name` and `address` as in `learner.core`."""
        if self._last_word is not None:
            return self._dismiss(routing_id, message)
        if isinstance(message, Hello):
            effects = self._site.hello(now, routing_id, message, key_name, address)
            return [*self._from_site(effects), *self._settle(now)]
        peer = self._site.peers.hears(now, routing_id, key_name)
        if peer is None:
            if isinstance(message, Goodbye):
                self._site.withdraw(routing_id)
            return [*refuse_stranger(routing_id, message)]
        if not may_send("actor", message):
            return [refuse(routing_id, "role", "a relay takes no such message from an actor")]
        return [*self._from_site(self._of_actor(now, routing_id, peer, message, body)), *self._settle(now)]

    def _of_actor(
        self, now: float, routing_id: bytes, peer: Peer, message: AnyMessage, body: Buffer | None
    ) -> list[SiteEffect]:
        assert self._gradients is not None and self._weights is not None  # else no actor could have joined
        match message:
            case Contribution():
                return self._gradients.handle(now, routing_id, peer, message, body)
            case Pull():
                return [*self._weights.pulled(now, routing_id, message)]
            case Heartbeat():
                return self._heartbeat(now, routing_id, peer, message)
            case Goodbye():
                return self._site.leave([routing_id], "info", cut(f"left: {message.reason}"))
            case _:
                return [refuse(routing_id, "role", "this run takes gradients: a relay adds them up")]

    def _heartbeat(self, now: float, routing_id: bytes, peer: Peer, message: Heartbeat) -> list[SiteEffect]:
        effects: list[SiteEffect] = [ToSite(routing_id, Heartbeat())]
        if text := peer.tells(now, message):
            self._uplink.say(text)
            effects.append(Log("warning", text, key=f"error {peer.hello.name}"))
        return effects

    def malformed(self, routing_id: bytes, error: WireError) -> list[Effect]:
        """Handles bytes that are no message."""
        return self._from_site(refuse_noise(routing_id, error, stranger=self._site.peers.get(routing_id) is None))

    def progress(self, progress: Mapping[bytes, Progress]) -> None:
        """Takes the progress of long messages under way, by routing id: on a slow link one may take minutes."""
        known = {routing_id: one for routing_id, one in progress.items() if self._site.peers.get(routing_id)}
        self._site.peers.alive({routing_id: one.moved for routing_id, one in known.items()})
        if self._weights is not None:
            self._weights.progress(known)

    def allow(self, roles: Mapping[str, Collection[str]]) -> None:
        """Sets the roles that the holder of each key may take, by the key's name."""
        self._site.peers.key_roles = roles

    def revoke(self, key_names: Collection[str]) -> list[Effect]:
        """Removes the actors that hold these keys, which are no longer allowed."""
        return self._from_site(self._site.revoke(key_names))

    def _from_site(self, effects: Iterable[SiteEffect]) -> list[Effect]:
        """Keeps the effects that a relay can carry out; the learner's other effects concern a run folder."""
        return [effect for effect in effects if isinstance(effect, ToSite | Disconnect | Publish | Log)]

    # -- what is due ---------------------------------------------------------------------------------------------------

    def tick(self, now: float, *, heard_all: bool = True) -> list[Effect]:
        """Does everything that is due; `heard_all`: no message of the site waits to be read."""
        if self._last_word is not None:
            return []
        self._site.peers.excuse(now, self._attention.look(now, heard_all))
        effects: list[Effect] = []
        if now >= self._look_due:
            self._look_due = now + LOOK_SECONDS
            effects += self._expire()
        return effects + self._own(self._uplink.tick(now)) + self._settle(now)

    def _expire(self) -> list[Effect]:
        if self._spec is None:
            return []
        seconds = self._spec.settings.exchange.expiry_seconds
        effects: list[SiteEffect] = []
        for routing_id, peer in self._site.peers.silent(self._attention.heard_until(seconds), seconds):
            text = f"has been silent for {seconds * peer.patience:g} s: it is removed"
            effects += self._site.leave([routing_id], "warning", text)
        return self._from_site(effects)

    def _settle(self, now: float) -> list[Effect]:
        """After any event: welcomes actors that ask, adds up gradients that wait, sends sums, and passes on weights."""
        weights, gradients = self._weights, self._gradients
        if weights is None or gradients is None or self._last_word is not None:
            return []
        effects: list[SiteEffect] = []
        if self.membership.member and weights.there:
            effects += self._site.admit(now, self._actors_in_run)
        self._uplink.site_changed(now, self._site.peers.actors)
        effects += gradients.answer(now)
        done: list[Effect] = []
        while True:  # each sum that leaves makes room for gradients that wait
            effects += gradients.fill(now)
            sent = self._own(self._uplink.send_sum(now))
            if not sent:
                break
            done += sent
        effects += weights.due(now, self._site.peers.senders)
        return [*self._from_site(effects), *done]

    # -- the end -------------------------------------------------------------------------------------------------------

    def stop(self, reason: str, *, final: bool = False) -> list[Effect]:
        """Ends the relay; unless `final`, its actors are told to expect another one."""
        goodbye = [one for one in self._uplink.leave(reason) if isinstance(one, ToLearner)]
        return [*self._end(reason, final=final), *goodbye]

    def _end(self, reason: str, *, final: bool) -> list[Effect]:
        if self._last_word is not None:
            return []
        self._last_word = Stop(reason=reason, final=final)
        return self._from_site(self._site.end(reason, final=final))

    def remind(self) -> list[Effect]:
        """Sends the last word again to the actors that have not said goodbye."""
        assert self._last_word is not None
        return [ToSite(routing_id, self._last_word) for routing_id in self._site.peers.everyone()]

    def _dismiss(self, routing_id: bytes, message: AnyMessage) -> list[Effect]:
        """Handles a message after the end: an actor that says goodbye knows of it, one that says hello must be told."""
        if isinstance(message, Goodbye):
            self._site.peers.leave(routing_id)
        assert self._last_word is not None
        return [ToSite(routing_id, self._last_word)] if isinstance(message, Hello) else []


def _spec(welcome: Welcome, settings: Settings, host: str) -> RunSpec:
    """Returns what the learner's welcome tells about the run."""
    return RunSpec(
        run=welcome.run,
        epoch=welcome.epoch,
        settings=settings,
        model=welcome.model,
        parameters=welcome.parameters,
        device="",
        host=host,
        run_dir="",
        weights_port=0,
        weights_format=welcome.weights_format,
        longest_episode=welcome.longest_episode,
        counted=welcome.counted,
    )
