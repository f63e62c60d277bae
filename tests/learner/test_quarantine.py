from __future__ import annotations

import pytest

from learner.quarantine import FIRST_SECONDS, LONGEST_SECONDS, MOST, NAMES_OF_A_PLACE, Quarantine

HOST = "address 127.0.0.1"


def out(quarantine: Quarantine, now: float, name: str, place: str = HOST, *, proven: bool = False) -> bool:
    return bool(quarantine.reason(now, place, name, proven=proven))


def test_a_name_is_out_for_a_while_and_the_others_of_its_machine_are_not() -> None:
    quarantine = Quarantine()
    assert quarantine.add(0.0, HOST, "box-3", "its gradients are not finite") == FIRST_SECONDS
    assert out(quarantine, 1.0, "box-3") and out(quarantine, FIRST_SECONDS - 1, "box-3")
    assert not any(out(quarantine, 1.0, f"box-{number}") for number in range(10) if number != 3)
    assert not out(quarantine, 1.0, "box-3", "address 10.0.0.2")
    assert not out(quarantine, FIRST_SECONDS + 1, "box-3")
    assert "119 s more: its gradients are not finite" in quarantine.reason(1.0, HOST, "box-3", proven=True)


def test_each_time_is_twice_as_long_up_to_a_limit_and_good_behaviour_is_believed_in_the_end() -> None:
    quarantine, now, times = Quarantine(), 0.0, []
    for _ in range(12):
        times.append(quarantine.add(now, HOST, "x", "why"))
        now += times[-1] + 1
    assert times[:3] == [FIRST_SECONDS, 2 * FIRST_SECONDS, 4 * FIRST_SECONDS]
    assert times[-1] == times[-2] == LONGEST_SECONDS
    assert quarantine.add(now + 5 * LONGEST_SECONDS, HOST, "x", "why") == FIRST_SECONDS


def test_after_several_names_the_whole_place_is_out_but_not_those_that_have_worked() -> None:
    quarantine = Quarantine()
    for number in range(NAMES_OF_A_PLACE):
        assert not out(quarantine, 1.0, "honest")
        quarantine.add(1.0, HOST, f"liar-{number}", "why")
    assert out(quarantine, 2.0, "honest") and "liar-2" in quarantine.reason(2.0, HOST, "new", proven=False)
    assert not out(quarantine, 2.0, "honest", proven=True)
    assert out(quarantine, 2.0, "liar-0", proven=True)
    assert quarantine.whole_place(2.0, HOST) == pytest.approx(FIRST_SECONDS - 1)
    assert quarantine.whole_place(2.0, "key lab") == quarantine.whole_place(1.0 + FIRST_SECONDS, HOST) == 0.0


def test_the_status_says_who_why_and_for_how_long() -> None:
    quarantine = Quarantine()
    quarantine.add(0.0, "key lab", "lab/1", "not finite")
    (one,) = quarantine.status(20.0)
    assert (one.name, one.place, one.why, one.seconds_left) == ("lab/1", "key lab", "not finite", FIRST_SECONDS - 20)
    assert quarantine.status(FIRST_SECONDS) == []
    for name in ("lab/2", "lab/3", "lab/4"):
        quarantine.add(0.0, "key lab", name, "why")
    assert quarantine.status(1.0)[-1].name == "all of key lab"


def test_it_remembers_no_more_than_its_limit_the_newest_ones() -> None:
    quarantine = Quarantine()
    for number in range(3 * MOST):
        quarantine.add(0.0, f"address {number}", "x", "why")
    assert len(quarantine.status(1.0)) == MOST
    assert out(quarantine, 1.0, "x", f"address {3 * MOST - 1}") and not out(quarantine, 1.0, "x", "address 0")
