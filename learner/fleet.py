"""The number of actors: turns the scaler's decisions into orders to the launchers, and takes the launchers' reports."""

from collections.abc import Collection, Sequence
from itertools import islice

from common.settings.sections import MAX_ACTORS
from common.wire.messages import MAX_ACTORS_NAMED, FleetOrder, FleetReport, Hello
from learner.absentees import Absentees, called
from learner.bounded_dict import BoundedDict
from learner.effects import Effect, Log, Send
from learner.peer import PREPARING_PATIENCE, Peer
from learner.run import Run
from learner.scaling import Bounds, Scaler, unreachable

SILENT_SECONDS = 600.0
"""How long a launcher is told about an actor that hangs, unless an actor of the same name joins."""
HANGS_AFTER = 2.0
"""Silence after which an actor counts as hanging, as a multiple of exchange.expiry_seconds; one that prepares has
PREPARING_PATIENCE."""


class Fleet:
    """The launchers of a run. Actors started by hand are extra: no order counts them."""

    def __init__(self, run: Run) -> None:
        self._spec = run.spec
        self._scaler = Scaler(run.spec.settings.scaling, run.stats.counters.bounds)
        self._expiry_seconds = run.spec.settings.exchange.expiry_seconds
        self._knows_reach = False
        """Whether it is settled if the scaling thresholds can be reached."""
        self._run_stats = run.stats
        self._peers = run.peers
        self._silent: BoundedDict[tuple[str, str], tuple[float, float]] = BoundedDict(MAX_ACTORS)
        """Actors that fell silent last, by launcher and name: when each was last heard, and from when on it hangs."""

    def decide(self, now: float) -> list[Effect]:
        """Ask the scaling policy for the number of actors, and order it if it has changed.

        A changed number is logged with its reason, and so is a new reason that holds an addition back.
        """
        before = self._run_stats.decision
        launchers = [peer for _, peer in self._peers.role("launcher")]
        theirs = {name for peer in launchers for name in called(peer.hello.name)}
        playing = [peer for _, peer in self._peers.role("actor") if peer.plays]
        sites = [peer.site for _, peer in self._peers.role("relay") if peer.plays and peer.site is not None]
        measurement = self._run_stats.measurement(
            now,
            len(playing) + sum(site.actors for site in sites),
            by_hand=sum(peer.hello.launcher not in theirs for peer in playing) + sum(site.by_hand for site in sites),
            launchers=len(launchers),
        )
        decision = self._scaler.decide(now, measurement)
        self._run_stats.decided(decision)
        effects = self._warn_of_reach()
        line = Log("info", f"scaling: {decision.why}", own=True)
        if decision.wanted != before.wanted:
            return [*effects, line, *self.orders(now)]
        return [*effects, line] if decision.held and decision.held != before.held else effects

    def bound(self, now: float, bounds: Bounds) -> list[Effect]:
        """Take new bounds on the number of actors, and decide by them."""
        self._run_stats.counters.bounds = bounds
        self._scaler.bound(bounds)
        return self.decide(now)

    @property
    def room(self) -> int:
        """Number of actors that all launchers together can run."""
        return sum(peer.slots for _, peer in self._peers.role("launcher"))

    def _warn_of_reach(self) -> list[Effect]:
        """Warn of scaling thresholds that cannot be reached, once, as soon as that is certain."""
        if self._knows_reach:
            return []
        spec, first = self._spec, self._run_stats.counters.first_length
        text = unreachable(
            spec.settings.scaling, spec.longest_episode, first_length=first, step_seconds=spec.step_seconds
        )
        self._knows_reach = text is not None or first is not None
        if text is None:
            return []
        self._run_stats.warn(text)
        return [Log("warning", text, own=True)]

    def fell_silent(self, peer: Peer) -> None:
        """Note an actor that was removed without a goodbye: if it hangs, only its launcher can end it."""
        if peer.hello.role == "actor" and peer.hello.launcher:
            times = max(HANGS_AFTER, peer.patience)
            self._silent[peer.hello.launcher, peer.hello.name] = peer.seen, peer.seen + times * self._expiry_seconds

    def heard(self, hello: Hello) -> None:
        """Note that an actor asks to join: whether it is let in or not, it does not hang."""
        if hello.role == "actor":
            for _, launcher in self._peers.role("launcher"):
                if launcher.absentees is not None:
                    launcher.absentees.heard(called(hello.name))

    def joined(self, hello: Hello) -> None:
        """Note that an actor has joined: it no longer counts as silent, nor does a predecessor of its name."""
        self._silent.pop((hello.launcher, hello.name), None)

    def orders(self, now: float) -> list[Effect]:
        """Share the wanted number of actors among the launchers, and return the orders to them."""
        launchers = self._peers.role("launcher")
        orders = share(self._run_stats.decision.wanted, [peer.slots for _, peer in launchers])
        for (_, peer), order in zip(launchers, orders, strict=True):
            peer.ordered = order
        return [self._order(now, routing_id, peer) for routing_id, peer in launchers]

    def reported(self, now: float, routing_id: bytes, peer: Peer, report: FleetReport) -> list[Effect]:
        """Take a launcher's report.

        A launcher that runs another number than ordered, or an actor that hangs, gets its order again in case it was
        lost. If its number of slots has changed (a host cannot be reached, say), all launchers get new orders.
        """
        given_up = report.gave_up and not (peer.report and peer.report.gave_up)
        room = peer.slots
        peer.report = report
        self._look_for_absentees(now, peer, report)
        effects: list[Effect] = []
        if peer.slots != room:
            effects += self.orders(now)
        elif report.running + report.starting != peer.ordered or self._silent_of(now, peer):
            effects.append(self._order(now, routing_id, peer))
        if given_up:
            text = f"launcher {peer.hello.name} cannot start actors, and tries ever more slowly: {report.why}"
            self._run_stats.warn(text)
            effects.append(Log("error", text))
        return effects

    def _order(self, now: float, routing_id: bytes, peer: Peer) -> Send:
        silent = self._silent_of(now, peer)
        return Send(routing_id, FleetOrder(actors=peer.ordered, why=self._run_stats.decision.why, silent=silent))

    def _silent_of(self, now: float, launcher: Peer) -> dict[str, float]:
        """Return the launcher's actors that hang, each with its seconds of silence; at most MAX_ACTORS_NAMED."""
        hang = {} if launcher.absentees is None else launcher.absentees.hanging()
        if not self._silent:
            return hang
        for key in [key for key, (_, since) in self._silent.items() if now >= since + SILENT_SECONDS]:
            del self._silent[key]
        names = called(launcher.hello.name)
        fell = {key[1]: now - seen for key, (seen, since) in self._silent.items() if key[0] in names and now >= since}
        if fell:
            # A name may be made up: the launcher would end the actor that it resembles, which plays.
            present = self._present(launcher, self._peers.site_names or ())
            fell = {name: seconds for name, seconds in fell.items() if present.isdisjoint(called(name))}
        return dict(islice((hang | fell).items(), MAX_ACTORS_NAMED))

    def _present(self, launcher: Peer, behind: Collection[str]) -> set[str]:
        """Return every form of the names of the launcher's actors in the run; `behind`: actors behind relays."""
        whose = called(launcher.hello.name)
        own = (peer.hello.name for _, peer in self._peers.role("actor") if peer.hello.launcher in whose)
        return set[str]().union(*map(called, {*behind, *own}))

    def _look_for_absentees(self, now: float, launcher: Peer, report: FleetReport) -> None:
        if launcher.absentees is None:
            launcher.absentees = Absentees(self._expiry_seconds, PREPARING_PATIENCE)
        present: set[str] = set()
        if report.names:
            behind = self._peers.site_names
            if behind is None:
                return  # relays do not name all their actors: any of this launcher's may be among the others
            present = self._present(launcher, behind)
        launcher.absentees.reported(now, report.names, present)


def share(wanted: int, slots: Sequence[int]) -> list[int]:
    """Return the number of actors for each launcher: as even as their slots allow, with the rest for the first ones.

    >>> share(9, [2, 8])
    [2, 7]
    """
    orders = [0] * len(slots)
    for _ in range(wanted):
        free = [index for index, limit in enumerate(slots) if orders[index] < limit]
        if not free:
            break
        orders[min(free, key=lambda index: orders[index])] += 1
    return orders
