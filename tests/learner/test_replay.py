"""What was applied is applied again, with every algorithm, codec and policy, and whatever happened to the learner."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from common.errors import ConfigurationError, DamagedRecordError
from common.settings.toml import override
from learner.applied import Stepped
from learner.record.contributions import contributions
from learner.record.gradient_history import began, frames
from learner.record.gradient_log import FRAME, frame_head, segments
from learner.replay import Replayed, replay
from tests.helpers.examples import examples
from tests.helpers.recorded import RecordedRun

SYNCHRONOUS = ("staleness.policy=synchronous", "algorithm.refresh=true")
TRAJECTORIES = "exchange.kind=trajectories"
VALUES = ("algorithm.kind=n-step-q", "algorithm.target_frames=50")
PPO = ("algorithm.kind=ppo", TRAJECTORIES, "algorithm.minibatches=2")
COMPENSATE = ("staleness.policy=compensate", "algorithm.refresh=false", "exchange.accumulate=1")
COUNTED = ("network.normalize=true", "environment.reward_normalize=true")


@pytest.fixture(autouse=True)
def denormals() -> Iterator[None]:
    """A learner flushes them for its process; Hypothesis needs floats as they should be."""
    yield
    torch.set_flush_denormal(False)


def equal(run: RecordedRun, result: Replayed) -> None:
    """It says so, and its checksum is that of the weights that the learner had."""
    assert (result.difference, result.problem, result.duplicates) == ("", "", [])
    assert result.equal
    newest = run.folder.newest()
    assert newest is not None and newest.read().version == result.version == run.version
    assert newest.folder.name in result.checkpoints
    assert newest.read().weights.tobytes() == run.weights_at[result.version]
    assert result.checksum == f"{run.core._weights.checksum:08x}"


@pytest.mark.parametrize(
    "assignments",
    [
        (),
        ("optimizer.kind=rmsprop", "optimizer.anneal=linear", "limits.frames=1000"),
        ("optimizer.kind=sgd", "optimizer.momentum=0.9"),
        *[(f"exchange.codec={codec}",) for codec in ("fp16", "bf16", "int8", "top-k", "sign", "ternary")],
        ("exchange.codec=int8", "exchange.entropy_coder=zstd"),
        COUNTED,
        VALUES,
        COMPENSATE,
        SYNCHRONOUS,
        (*SYNCHRONOUS, *COUNTED),
        *[(f"algorithm.kind={kind}", TRAJECTORIES) for kind in ("a2c", "vtrace")],
        PPO,
        (*PPO, *SYNCHRONOUS),
        ("network.lstm=4", *PPO),
    ],
)
def test_the_same_weights_come_out(tmp_path: Path, assignments: tuple[str, ...]) -> None:
    """Straight on, after a resume, and from a checkpoint in the middle, which holds all that the next step needs."""
    run = RecordedRun(tmp_path / "run", *assignments)
    run.steps(7, "a", "b", lag=1)
    run.save()
    middle = run.version
    run.steps(2, "a", "b")
    ahead = run.version
    run.start()
    assert run.version == middle
    run.steps(6, "a", "c", "d", lag=2)
    run.end()
    result = replay(run.folder.path)
    equal(run, result)
    assert (result.first, result.start, result.last) == (0, 0, run.version)
    assert [(lost.epoch, lost.after, lost.until) for lost in result.lost] == [(1, middle, ahead)]
    assert sum(result.actors.values()) == result.contributions == run.core.run.stats.counters.gradients
    begun = replay(run.folder.path, middle)
    equal(run, begun)
    assert (begun.start, begun.steps) == (middle, run.version - middle)


operations = st.one_of(
    st.tuples(st.just("send"), st.sampled_from("abcdefghijkl"), st.integers(0, 6), st.booleans()),
    st.tuples(st.sampled_from(["flush", "save", "die"])),
)


@pytest.mark.parametrize(
    "assignments", [(), VALUES + COUNTED, SYNCHRONOUS + COUNTED], ids=["scale", "q", "synchronous"]
)
@settings(max_examples=examples(12), deadline=None)
@given(schedule=st.lists(operations, min_size=5, max_size=60))
def test_whatever_happens_each_is_applied_once_and_the_weights_are_those_of_the_record(
    tmp_path_factory: pytest.TempPathFactory, assignments: tuple[str, ...], schedule: list[tuple[object, ...]]
) -> None:
    path = tmp_path_factory.mktemp("replay")
    run = RecordedRun(path / "run", *assignments, segment_bytes=4000)
    try:
        for what, *arguments in schedule:
            match what:
                case "send":
                    actor, lag, again = arguments
                    run.send(str(actor), int(str(lag)), bool(again))
                case "flush":
                    run.flush()
                case "save":
                    run.save()
                case "die":
                    run.start()
        run.steps(1, "a")
        run.flush()
        run.end()
        if run.version:
            result = replay(run.folder.path)
            equal(run, result)
            assert result.contributions == run.core.run.stats.counters.gradients
    finally:
        run.die()
        shutil.rmtree(path)


@pytest.mark.parametrize("assignments", [(), VALUES, PPO, SYNCHRONOUS], ids=["a3c", "q", "ppo", "synchronous"])
def test_a_resumed_learner_goes_on_as_it_would_have(tmp_path: Path, assignments: tuple[str, ...]) -> None:
    """The same contributions, with and without a restart between them."""
    ends = []
    for name in ("straight", "resumed"):
        run = RecordedRun(tmp_path / name, *assignments)
        run.join("a", "b")
        run.steps(5, "a", "b")
        run.save()
        if name == "resumed":
            run.start()
            run.join("a", "b")
        run.steps(5, "a", "b")
        run.end()
        ends.append(run)
    straight, resumed = (run.core._weights for run in ends)
    assert straight.checksum == resumed.checksum
    assert ends[0].weights_at[3] != ends[0].weights_at[0]
    assert straight.moments == resumed.moments
    assert {name: tensor.tolist() for name, tensor in straight.state().items()} == {
        name: tensor.tolist() for name, tensor in resumed.state().items()
    }


def recorded(path: Path, *assignments: str, **options: int) -> RecordedRun:
    """6 steps, a checkpoint, 6 steps, and the last checkpoint."""
    run = RecordedRun(path / "run", *assignments, **options)
    run.steps(6)
    run.save()
    run.steps(6)
    run.end()
    return run


def altered(path: Path, version: int, **changed: object) -> None:
    """The step to this version is changed, with the checksums of a whole frame: the file is not damaged."""
    out = b""
    for entry, body in frames(path):
        if isinstance(entry, Stepped) and entry.version == version:
            entry = msgspec.structs.replace(entry, **changed)
        packed = msgspec.msgpack.encode(entry)
        out += frame_head(packed, body) + packed + body
    path.write_bytes(out)


def test_the_first_version_that_differs_is_named_and_by_how_much(tmp_path: Path) -> None:
    run = recorded(tmp_path)
    ((_, _, path),) = segments(run.folder.gradients)
    altered(path, 4, scale=0.125)
    result = replay(run.folder.path)
    assert not result.equal and result.differs
    assert (result.different_version, result.checksums) == (4, 4), "new weights and three steps"
    assert "checksum" in result.difference
    assert "at version 6 the checkpoint 0000000006 differs: weights by up to" in result.difference
    assert replay(run.folder.path, 6).equal, "what comes behind is as it was"
    assert replay(run.folder.path, 0, 3).equal


def test_what_only_one_of_the_two_leaves_out_is_named(tmp_path: Path) -> None:
    run = recorded(tmp_path)
    ((_, _, path),) = segments(run.folder.gradients)
    altered(path, 4, left_out=[0])
    result = replay(run.folder.path)
    assert result.different_version == 4
    assert "either the run or the replay left out a (a-1) 4, and the other did not" in result.difference
    assert result.contributions == 5
    assert [one.version for one in contributions(run.folder.gradients, "a")] == [1, 2, 3, *range(5, 13)]


def test_what_was_applied_twice_is_named(tmp_path: Path) -> None:
    run = RecordedRun(tmp_path / "run")
    run.steps(2)
    run._sequences["a"] = 0  # a learner that forgot what it has seen
    run.core.run.peers._window = type(run.core.run.peers._window)()
    run.steps(1)
    run.end()
    result = replay(run.folder.path)
    assert result.duplicates == ["a (a-1) 1, again at version 3"]
    assert result.difference == "" and result.differs and not result.equal


@pytest.mark.parametrize("at", [0, 9, 20, 700, 1500])
def test_an_altered_byte_is_named_by_its_place(tmp_path: Path, at: int) -> None:
    run = recorded(tmp_path)
    ((_, _, path),) = segments(run.folder.gradients)
    data = bytearray(path.read_bytes())
    place = at if at < 100 else len(data) - at
    data[place] ^= 4
    path.write_bytes(data)
    if at < 100:
        with pytest.raises(DamagedRecordError, match=r"000001-000000\.log: damaged at byte 0"):
            replay(run.folder.path)
        return
    result = replay(run.folder.path)
    assert not result.equal and not result.differs
    assert "000001-000000.log: damaged at byte " in result.problem
    assert (
        place - FRAME.size - 600
        < int(result.problem.partition("at byte ")[2].partition(":")[0].replace(",", ""))
        <= place
    )
    assert 0 < result.version < run.version
    assert replay(run.folder.path, 0, result.version).equal


def test_a_frame_that_was_not_finished_is_left_out(tmp_path: Path) -> None:
    run = RecordedRun(tmp_path / "run")
    run.steps(6)
    run.save()
    run.steps(3)
    run.die()
    ((_, _, path),) = segments(run.folder.gradients)
    path.write_bytes(path.read_bytes()[:-5])
    killed = replay(run.folder.path)
    assert killed.equal and killed.version == 8
    run.start()
    run.steps(4)
    run.end()
    equal(run, replay(run.folder.path))


def test_the_oldest_part_may_be_gone(tmp_path: Path) -> None:
    run = recorded(tmp_path, segment_bytes=2000)
    paths = [path for _, _, path in segments(run.folder.gradients)]
    assert len(paths) > 3
    paths[0].unlink()
    result = replay(run.folder.path)
    equal(run, result)
    assert 0 < result.first <= 6 and (result.start, result.started_from) == (6, "0000000006")
    with pytest.raises(
        ConfigurationError, match=rf"goes back to version {result.first}; a replay can begin at 6, 12, not at 0"
    ):
        replay(run.folder.path, 0)


def test_a_file_that_is_missing_in_the_middle_is_a_hole(tmp_path: Path) -> None:
    run = recorded(tmp_path, segment_bytes=2000)
    paths = [path for _, _, path in segments(run.folder.gradients)]
    left = began(paths[-1])
    assert left is not None and left.version > 6
    paths[-2].unlink()
    result = replay(run.folder.path)
    assert (result.first, result.start, result.problem) == (left.version, 12, "there is no step behind version 12")
    assert not result.equal


def test_a_later_epoch_without_a_record_is_told_of_although_it_ends_at_a_lower_version(tmp_path: Path) -> None:
    run = RecordedRun(tmp_path / "run")
    run.steps(2)
    run.save()
    run.steps(3)
    run.start(override(run.settings, ["record.gradients=false"]))
    run.steps(1)
    run.end()
    problem = replay(run.folder.path).problem
    assert problem.startswith("the record ends at version 5 of epoch 1, before the newest checkpoint (3 of 2)")


def test_a_record_that_ends_before_the_newest_checkpoint_does_not_show_it(tmp_path: Path) -> None:
    run = RecordedRun(tmp_path / "run")
    run.steps(3)
    run.log.failed = True  # as after a disk that was full
    run.steps(3)
    run.end()
    result = replay(run.folder.path)
    assert (
        result.problem
        == "the record ends at version 3 of epoch 1, before the newest checkpoint (6 of 1): recording had stopped, "
        "or was off"
    )
    assert not result.equal and not result.differs


def test_recording_goes_on_with_the_next_start_and_the_replay_begins_behind_the_hole(tmp_path: Path) -> None:
    run = RecordedRun(tmp_path / "run")
    run.steps(3)
    run.log.failed = True
    run.steps(3)
    run.save()
    run.start()
    run.steps(3)
    run.end()
    result = replay(run.folder.path)
    equal(run, result)
    assert (result.first, result.start, result.hole) == (6, 6, "epoch 1 was recorded up to version 3, not to 6")


def test_other_settings_from_a_resume_on_are_those_of_its_steps(tmp_path: Path) -> None:
    run = RecordedRun(tmp_path / "run")
    run.steps(3)
    run.save()
    changed = msgspec.structs.replace(run.settings.optimizer, learning_rate=0.1)
    run.start(msgspec.structs.replace(run.settings, optimizer=changed))
    run.steps(3)
    run.end()
    equal(run, replay(run.folder.path))


def test_delay_compensation_begins_where_an_epoch_began(tmp_path: Path) -> None:
    run = recorded(tmp_path, *COMPENSATE)
    with pytest.raises(ConfigurationError, match="a replay can begin at 0, not at 6"):
        replay(run.folder.path, 6)


def test_what_points_against_the_others_is_left_out_again(tmp_path: Path) -> None:
    """One of five actors flips the sign; once it is left out it is still judged, and so are the others by it."""
    run = RecordedRun(tmp_path / "run", "exchange.robust=agreement", "checkpoint.keep=5")
    run.agreeing = True
    for _ in range(120):
        for name in "abcd":
            run.send(name)
        run.send("e", flipped=True)
        run.flush()
    run.save()
    run.start()
    run.steps(5, "a", "b")
    run.end()
    assert ("e", 120, "refused") in run.verdicts
    result = replay(run.folder.path)
    equal(run, result)
    assert 0 < result.actors["e"] < 120 and result.actors["a"] == 125
    with pytest.raises(ConfigurationError, match="a replay can begin at 0"):
        replay(run.folder.path, 1)


def test_a_run_that_recorded_nothing_is_refused(tmp_path: Path) -> None:
    run = recorded(tmp_path, "record.gradients=false")
    with pytest.raises(ConfigurationError, match=r"nothing is recorded there; train with --set record\.gradients=true"):
        replay(run.folder.path)
    with pytest.raises(ConfigurationError, match="holds no run"):
        replay(tmp_path)


def test_a_version_that_is_not_there_is_refused(tmp_path: Path) -> None:
    run = recorded(tmp_path)
    with pytest.raises(ConfigurationError, match="a replay from version 0 can go to 12, not to 13"):
        replay(run.folder.path, until=13)
