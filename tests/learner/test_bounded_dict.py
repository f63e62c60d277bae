from __future__ import annotations

from learner.bounded_dict import BoundedDict


def test_the_keys_that_were_set_last_are_kept() -> None:
    some: BoundedDict[str, int] = BoundedDict(2)
    some["a"] = 1
    some["b"] = 2
    some["a"] = 3
    assert some.setdefault("a", 9) == 3
    some.setdefault("c", 4)
    assert list(some.items()) == [("a", 3), ("c", 4)]
