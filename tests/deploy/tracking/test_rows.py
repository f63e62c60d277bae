from __future__ import annotations

from deploy.tracking.rows import tracked


def test_numbers_are_named_by_their_table_and_actors_are_left_out() -> None:
    more = {"why": "none", "mean_return": None, "raw": {"entropy": 0.5}, "actor_frames_per_second": {"lab-01/a": 3.0}}
    row = tracked(4, {"time": 1e9, "frames": 7, "seconds": 7.0, **more})
    assert (row.number, row.time, row.frames) == (4, 1e9, 7)
    assert row.figures == {"frames": 7.0, "seconds": 7.0, "raw/entropy": 0.5}
