from __future__ import annotations

import math

from common.run.status import CheckpointStatus
from learner.effects import SaveCheckpoint
from learner.save_schedule import SaveSchedule
from tests.helpers.run import learner_of, logged


def test_each_is_due_so_long_after_the_last_was_begun_and_one_is_written_at_a_time() -> None:
    saves = SaveSchedule(60.0, 100.0, None)
    assert saves.deadline == 160.0
    saves.begin(161.0)
    assert (saves.deadline, saves.writing) == (math.inf, True)
    assert not saves.saved(7)
    assert (saves.deadline, saves.writing) == (221.0, False)
    saves.begin(221.0)
    saves.saved(8)
    assert saves.status(300.0) == CheckpointStatus(version=8, age=79.0)


def test_the_last_one_may_be_begun_while_another_is_being_written() -> None:
    saves = SaveSchedule(60.0, 100.0, None)
    saves.begin(160.0)
    saves.begin(163.0)
    saves.saved(7)
    assert (saves.writing, saves.version, saves.status(170.0).age) == (True, 7, 10.0)
    saves.saved(8)
    assert (saves.writing, saves.version, saves.status(170.0).age) == (False, 8, 7.0)


def test_a_failed_one_is_tried_again_soon_then_more_slowly_and_never_later_than_usual() -> None:
    saves = SaveSchedule(60.0, 0.0, None)
    now, pauses = 60.0, []
    for _ in range(8):
        saves.begin(now)
        saves.failed(now, "the disk is full")
        pauses.append(saves.deadline - now)
        now = saves.deadline
    assert pauses == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
    assert (saves.error, saves.version) == ("the disk is full", None)
    saves.begin(now)
    assert saves.saved(9), "it is well again"
    saves.begin(now + 60.0)
    saves.failed(now + 60.0, "again")
    assert saves.deadline == now + 62.0
    assert saves.status(now + 70.0) == CheckpointStatus(version=9, age=70.0, error="again")


def test_a_disk_that_stays_full_for_days_is_tried_again_for_ever() -> None:
    saves = SaveSchedule(20.0, 0.0, None)
    for number in range(3000):
        saves.begin(20.0 * number)
        saves.failed(20.0 * number, "the disk is full")
    assert saves.deadline == 20.0 * 3000


def test_one_in_a_hurry_waits_for_the_one_being_written() -> None:
    saves = SaveSchedule(60.0, 0.0, None)
    saves.hurry(3.0)
    assert saves.deadline == 3.0
    saves.begin(3.0)
    saves.hurry(4.0)
    assert saves.deadline == math.inf
    saves.saved(1)
    assert saves.deadline == 4.0


def test_without_a_time_only_the_end_saves() -> None:
    saves = SaveSchedule(0.0, 0.0, None)
    assert saves.deadline == math.inf
    assert not saves.may_be_early(1e9)


def test_a_new_best_waits_for_the_one_being_written_and_five_seconds() -> None:
    saves = SaveSchedule(60.0, 0.0, None)
    assert [saves.may_be_early(now) for now in (4.9, 5.0)] == [False, True]
    saves.begin(5.0)
    assert not saves.may_be_early(20.0)
    saves.saved(1)
    assert saves.may_be_early(20.0)
    saves.begin(20.0)
    saves.failed(20.0, "no space left")
    assert not saves.may_be_early(1e9), "it is tried again in its own time"


def test_what_is_safe() -> None:
    assert SaveSchedule(60.0, 0.0, None).safe == "no checkpoint was ever written: nothing of the run is safe"
    assert SaveSchedule(60.0, 0.0, 452).safe == "safe is the checkpoint of version 452"
    assert SaveSchedule(60.0, 5.0, 452).status(7.0) == CheckpointStatus(version=452, age=2.0)


def test_the_core_says_what_failed_and_tries_again() -> None:
    core, _ = learner_of("checkpoint.every_seconds=5")
    (save,) = [effect for effect in core.tick(5.0) if isinstance(effect, SaveCheckpoint)]
    text = "the checkpoint could not be written: run/checkpoints: No space left on device"
    assert logged(core.saved(5.5, save.version, "run/checkpoints: No space left on device")) == [
        f"error: {text} (version 0)"
    ]
    status = core.run.status(6.0)
    assert (status.warnings, status.checkpoint.error) == ([text], "run/checkpoints: No space left on device")
    assert not any(isinstance(effect, SaveCheckpoint) for effect in core.tick(7.4))
    assert any(isinstance(effect, SaveCheckpoint) for effect in core.tick(7.5))
    assert logged(core.saved(8.0, 0, "")) == ["info: checkpoint of version 0 is written: all is well again"]
    status = core.run.status(9.0)
    assert status.checkpoint == CheckpointStatus(version=0, age=1.5)
