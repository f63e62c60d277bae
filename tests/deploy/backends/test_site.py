from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from deploy.backends.base import Ended, Found
from deploy.backends.site import Site
from deploy.hold.messages import AnyLine, Gone, Holding, Ping, Start, Started, Stop


def site(*running: int, slots: int = 3) -> Site:
    """Connected to a holder with these."""
    one = Site(slots, "lab-{}".format)
    one.handle(Holding(list(running)))
    return one


def test_nothing_is_said_before_the_holder_has_spoken() -> None:
    one = Site(3, "lab-{}".format)
    assert (one.start(0), one.stop(0, False), one.connected) == ([], [], False)
    assert one.handle(Holding([])) == ([], [Ended(0, 0)]), "given up before it began"


def test_from_start_to_end() -> None:
    one = site()
    assert one.start(1) == [Start(1, "lab-1")]
    assert (one.running, one.asked) == ({1}, {1})
    assert one.handle(Started(1)) == ([], [])
    assert one.asked == set()
    assert one.stop(1, True) == [Stop(1, True)]
    assert one.handle(Gone(1, 137, "dead")) == ([], [Ended(1, 137, "dead")])
    assert (one.running, one.stop(1, False)) == (set(), [])


def test_what_is_not_ours_is_nothing_to_us() -> None:
    one = site()
    assert one.handle(Gone(2, 1)) == one.handle(Started(2)) == one.handle(Ping()) == ([], [])


def test_what_runs_is_found_and_what_is_too_much_is_stopped() -> None:
    one = Site(2, "lab-{}".format)
    assert one.handle(Holding([0, 5])) == ([Stop(5)], [Found(0)])
    assert one.handle(Gone(5, 143)) == ([], [])


def test_after_a_reconnection_a_start_and_a_stop_are_said_again() -> None:
    one = site(0)
    one.start(1)
    one.stop(0, False)
    one.lost()
    assert one.start(2) == []
    assert one.handle(Holding([0], [Gone(1, 3, "an earlier one")])) == (
        [Stop(0), Start(1, "lab-1"), Start(2, "lab-2")],
        [],
    )


def test_a_start_that_came_through_is_not_said_again() -> None:
    one = site()
    one.start(1)
    one.lost()
    assert one.handle(Holding([1])) == ([], [])
    assert (one.running, one.asked) == ({1}, set())


def test_what_ended_meanwhile_is_told() -> None:
    one = site(0, 1)
    one.lost()
    lines, news = one.handle(Holding([], [Gone(0, 78, "no environment")]))
    assert lines == []
    assert news[0] == Ended(0, 78, "no environment")
    assert isinstance(news[1], Ended)
    assert (news[1].slot, news[1].exit_code) == (1, 75)


def test_expired() -> None:
    one = site(0)
    one.start(1)
    one.lost()
    assert one.expired("too long") == [Ended(0, 75, "too long"), Ended(1, 75, "too long")]
    assert one.running == set()
    assert one.expired("too long") == []


class Holder:
    """As the real one answers, with a wire that may lose what is on it."""

    def __init__(self) -> None:
        self.running: set[int] = set()
        self.gone: dict[int, Gone] = {}
        self.started = 0

    def take(self, line: AnyLine) -> list[AnyLine]:
        if isinstance(line, Start):
            self.started += line.slot not in self.running
            self.running.add(line.slot)
            self.gone.pop(line.slot, None)
            return [Started(line.slot)]
        return self.end(line.slot) if isinstance(line, Stop) else []

    def end(self, slot: int) -> list[AnyLine]:
        if slot not in self.running:
            return []
        self.running.remove(slot)
        self.gone[slot] = Gone(slot, 1, "x")
        return [self.gone[slot]]


steps = st.lists(st.tuples(st.sampled_from(["start", "stop", "crash", "cut", "cut both", "mend"]), st.integers(0, 2)))


@given(steps)
def test_whatever_is_lost_both_ends_agree_once_they_talk_again(script: list[tuple[str, int]]) -> None:
    one, holder, up, told = Site(3, "lab-{}".format), Holder(), False, set[int]()
    wanted: set[int] = set()

    def exchange(lines: list[AnyLine], heard: bool = True) -> None:
        while lines:
            answers = holder.take(lines.pop(0))
            for answer in answers if heard else []:
                more, news = one.handle(answer)
                told.update(event.slot for event in news if isinstance(event, Ended))
                lines += more

    def mend() -> None:
        lines, news = one.handle(Holding(sorted(holder.running), list(holder.gone.values())))
        told.update(event.slot for event in news if isinstance(event, Ended))
        exchange(lines)

    for kind, slot in script:
        if kind == "start" and slot not in one.running:
            wanted.add(slot)
            told.discard(slot)
            exchange(one.start(slot), heard=up)
        elif kind == "stop":
            exchange(one.stop(slot, False))
        elif kind == "crash":
            for answer in holder.end(slot):
                if up:
                    told.update(event.slot for event in one.handle(answer)[1])
        elif kind.startswith("cut"):
            up = False
            one.lost()
        elif kind == "mend":
            up = True
            mend()
    mend()
    assert one.running == holder.running
    assert one.asked == set()
    assert wanted == (one.running | told) & wanted, "an actor that is neither there nor told of"
