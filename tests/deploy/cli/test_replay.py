from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from common.errors import EXIT_CONFIGURATION, EXIT_DIFFERENT, EXIT_DONE
from learner.record.gradient_log import segments
from tests.helpers.command_line import a3cd
from tests.helpers.recorded import RecordedRun
from tests.learner.test_replay import altered


@pytest.fixture
def run(tmp_path: Path) -> RecordedRun:
    """One that was killed once."""
    one = RecordedRun(tmp_path / "run")
    one.steps(2, "lab/1", "lab/2")
    one.save()
    one.steps(1, "lab/1")
    one.start()
    one.steps(3, "lab/1")
    one.end()
    torch.set_flush_denormal(False)
    return one


def test_equal_weights_are_code_0_with_what_was_compared(run: RecordedRun) -> None:
    result = a3cd("replay", run.folder.path)
    checksum = f"{run.core._weights.checksum:08x}"
    assert result.output.splitlines() == [
        f"run {run.core.run.spec.run}: CartPole-v1, a3c, gradients; recorded are versions 0 to 7",
        "lost when epoch 1 ended: versions 5 to 5, which no later weights stand on",
        "replayed from new weights at version 0 to 7: 7 steps with 7 gradients of 2 actors",
        f"  {'lab/1':<40}{5:>12}",
        f"  {'lab/2':<40}{2:>12}",
        "applied twice: none",
        "found equal: 9 checksums; checkpoints: 0000000004, 0000000007",
        f"equal: the weights of version 7, checksum {checksum}",
    ]
    assert result.exit_code == EXIT_DONE
    part = json.loads(a3cd("replay", run.folder.path, "--from", 4, "--to", 6, "--json").output)
    assert (part["equal"], part["start"], part["version"], part["steps"]) == (True, 4, 6, 2)


def test_different_weights_have_a_code_of_their_own(run: RecordedRun) -> None:
    altered(segments(run.folder.gradients)[0][2], 2, scale=3.0)
    result = a3cd("replay", run.folder.path)
    assert result.exit_code == EXIT_DIFFERENT
    assert "different from version 2 on: the weights have the checksum" in result.output
    assert not json.loads(a3cd("replay", run.folder.path, "--json").output)["equal"]


def test_damage_is_named_and_nothing_is_claimed(run: RecordedRun) -> None:
    path = segments(run.folder.gradients)[-1][2]
    data = bytearray(path.read_bytes())
    data[-3] ^= 255
    path.write_bytes(data)
    result = a3cd("replay", run.folder.path)
    assert result.exit_code == EXIT_CONFIGURATION
    assert f"not shown: {path}: damaged at byte " in result.output.replace("\n", "")


def test_what_one_actor_contributed(run: RecordedRun) -> None:
    head, *rows = a3cd("replay", run.folder.path, "--peer", "lab/2").output.splitlines()
    assert head.split() == ["sequence", "into", "version", "lag", "weight", "rollouts", "norm"]
    assert [row.split()[:3] for row in rows] == [["1", "2", "0"], ["2", "4", "0"]]
    plain = a3cd("replay", run.folder.path, "--peer", "lab/1", "--json").output.splitlines()
    assert [json.loads(line)["sequence"] for line in plain] == [1, 2, 4, 5, 6]


def test_what_it_contributed_to_some_versions(run: RecordedRun) -> None:
    def into(*words: object) -> list[int]:
        rows = a3cd("replay", run.folder.path, "--peer", "lab/2", "--json", *words).output.splitlines()
        return [json.loads(row)["version"] for row in rows]

    assert (into(), into("--to", 3), into("--from", 2), into("--from", 1, "--to", 4)) == ([2, 4], [2], [4], [2, 4])


def test_an_actor_of_whom_there_is_nothing_is_named_with_the_others(
    run: RecordedRun, caplog: pytest.LogCaptureFixture
) -> None:
    assert a3cd("replay", run.folder.path, "--peer", "lab/3").exit_code == EXIT_CONFIGURATION
    assert "nothing of lab/3 was applied; there are contributions of lab/1, lab/2" in caplog.text
