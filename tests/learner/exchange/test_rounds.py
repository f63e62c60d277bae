from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from learner.exchange.rounds import Arrived, Rounds
from learner.meters import Rate
from learner.peer import Peer
from tests.helpers.run import gradient_of, hello_of


def arrived(order: int, sequence: int, connection: str = "") -> Arrived:
    peer = Peer(hello=hello_of(f"actor{order}"), seen=0.0, rate=Rate(5.0, 0.0), seed=order)
    return Arrived((connection or f"{order}").encode(), peer, gradient_of(sequence), b"gradient")


def told(some: list[Arrived]) -> list[tuple[int, int]]:
    return [(one.peer.seed, one.message.sequence) for one in some]


@given(st.lists(st.permutations(range(4)), min_size=1, max_size=5))
def test_whoever_comes_first_a_round_is_in_the_order_of_joining(rounds: list[list[int]]) -> None:
    one = Rounds(4)
    for number, order in enumerate(rounds, 1):
        for actor in order[:-1]:
            assert one.add(arrived(actor, number)) == []
        assert told(one.add(arrived(order[-1], number))) == [(actor, number) for actor in range(4)]


def test_what_waits_and_comes_again_is_answered_where_it_came_from_last() -> None:
    one = Rounds(2)
    assert one.add(arrived(0, 1, "before")) == one.add(arrived(0, 1, "after")) == []
    assert [each.routing_id for each in one.add(arrived(1, 1))] == [b"after", b"1"]


def test_what_was_handled_and_comes_again_is_no_part_of_the_next_round() -> None:
    one = Rounds(2)
    one.add(arrived(0, 1))
    one.add(arrived(1, 1))
    assert told(one.add(arrived(0, 1))) == [(0, 1)], "its answer was lost"
    assert one.add(arrived(1, 2)) == []
    assert told(one.add(arrived(0, 2))) == [(0, 2), (1, 2)]


def test_one_actor_waits_for_nobody() -> None:
    one = Rounds(1)
    assert [told(one.add(arrived(0, sequence))) for sequence in (1, 2)] == [[(0, 1)], [(0, 2)]]
