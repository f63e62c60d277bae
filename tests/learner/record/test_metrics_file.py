from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from learner.record.metrics_file import last_row, repair, rows, thin
from tests.helpers.disks import lacking, small_disk


@pytest.mark.parametrize(
    ("before", "after"),
    [(b"", b""), (b"a\n", b"a\n"), (b"a\nb", b"a\n"), (b"half", b""), (b"a\n\n", b"a\n\n")],
)
def test_repair(tmp_path: Path, before: bytes, after: bytes) -> None:
    file = tmp_path / "metrics.jsonl"
    file.write_bytes(before)
    repair(file)
    assert file.read_bytes() == after


def test_a_long_half_line_is_cut_off(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    file.write_bytes(b'{"frames":1}\n' + b"x" * 200_000)
    repair(file)
    assert file.read_bytes() == b'{"frames":1}\n'


def test_no_file_has_no_rows(tmp_path: Path) -> None:
    repair(tmp_path / "none")
    assert list(rows(tmp_path / "none")) == []


def test_rows_a_resumed_run_went_back_behind_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    frames = [10, 20, 20, 30, 40, 25, 35, 50, 22]
    file.write_text("".join(f'{{"frames":{count},"n":{n}}}\n' for n, count in enumerate(frames)))
    assert [(row["frames"], row["n"]) for row in rows(file)] == [(10, 0), (20, 1), (20, 2), (22, 8)]


@given(st.lists(st.one_of(st.binary(max_size=20), st.sampled_from([b'{"frames":1}', b'{"frames":"x"}', b"[1]", b"3"]))))
def test_any_bytes_give_rows_with_frames(tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]) -> None:
    file = tmp_path_factory.getbasetemp() / "metrics.jsonl"
    file.write_bytes(b"\n".join(lines))
    found: list[dict[str, Any]] = list(rows(file))
    assert len(found) >= lines.count(b'{"frames":1}') - 1
    assert all(isinstance(row["frames"], int | float) for row in found)


HOUR, DAY = 3600, 24 * 3600


def test_older_rows_are_further_apart(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    last = 3 * DAY
    with file.open("w") as out:
        for second in range(0, last + 1, 2):
            out.write(f'{{"frames":{second},"seconds":{second}.0,"n":1}}\n')
    thin(file)
    kept = [row["seconds"] for row in rows(file)]
    assert (kept[0], kept[-1]) == (0.0, last)
    apart: dict[float, set[float]] = {}
    for earlier, later in pairwise(kept):
        age = last - later
        apart.setdefault(2 * HOUR if age < 2 * HOUR else DAY if age < DAY else 7 * DAY, set()).add(later - earlier)
    assert apart == {2 * HOUR: {2.0}, DAY: {10.0}, 7 * DAY: {60.0}}
    before = file.read_bytes()
    thin(file)
    assert file.read_bytes() == before, "again changes nothing"


def test_what_a_resumed_run_went_back_behind_is_thinned_out_and_the_rest_stands(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    first = [(second, second) for second in range(1001)]
    second = [(second, second) for second in range(600, 1500)]
    lines = [f'{{"frames":{frames},"seconds":{at}}}' for frames, at in first + second]
    file.write_text("\n".join([*lines[:50], "junk", "{}", *lines[50:], "[1"]))
    before = list(rows(file))
    assert [row["frames"] for row in before] == [*range(601), *range(600, 1500)], (
        "a row of the checkpoint itself stands"
    )
    thin(file)
    assert list(rows(file)) == before
    assert len(file.read_bytes().splitlines()) == 1501


def test_rows_of_no_known_age_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    file.write_text("".join(f'{{"frames":{frames},"seconds":null}}\n' for frames in range(10)))
    thin(file)
    assert len(list(rows(file))) == 10


@given(st.lists(st.tuples(st.integers(0, 50), st.one_of(st.none(), st.integers(0, 10**8))), max_size=60))
def test_thinning_takes_rows_away_and_adds_none(
    tmp_path_factory: pytest.TempPathFactory, table: list[tuple[int, int | None]]
) -> None:
    file = tmp_path_factory.getbasetemp() / "thinned.jsonl"
    file.write_text("".join(json.dumps({"frames": frames, "seconds": at}) + "\n" for frames, at in table))
    before = list(rows(file))
    thin(file)
    after = list(rows(file))
    left = iter(before)
    assert all(row in left for row in after), "a subsequence"
    assert after[:1] == before[:1]


@pytest.mark.skipif(bool(lacking()), reason=lacking())
def test_thinning_on_a_full_disk_changes_nothing(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "256k") as disk:
        file = disk.path / "metrics.jsonl"
        file.write_text("".join(f'{{"frames":{second},"seconds":{second}}}\n' for second in range(5000)))
        before = file.read_bytes()
        disk.fill()
        with pytest.raises(OSError, match="No space left"):
            thin(file)
        assert file.read_bytes() == before
        assert sorted(entry.name for entry in disk.path.iterdir()) == ["filling", "metrics.jsonl"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="kilobytes of memory are Linux's")
def test_a_long_file_is_started_upon_drawn_and_thinned_in_little_memory(tmp_path: Path) -> None:
    """Read whole into dictionaries it would take 100 MiB."""
    file = tmp_path / "metrics.jsonl"
    with file.open("w") as out:
        figures = ",".join(f'"figure_{number}":{number / 7}' for number in range(16))
        for second in range(50_000):
            out.write(f'{{"frames":{second},"seconds":{second},"mean_return":1.5,{figures}}}\n')
    code = """if True:
        import resource, sys
        from pathlib import Path
        from common.run.folder import RunFolder
        from learner.record.curve import draw
        from learner.record.metrics import MetricsWriter
        run, none = RunFolder(Path(sys.argv[1])), Path("none")
        MetricsWriter(RunFolder(Path(sys.argv[2])), print).close()
        draw(none, run.curve, "", None)  # what it imports is no matter here
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        writer = MetricsWriter(run, print)
        draw(run.metrics_file, run.curve, "", None)
        size = run.metrics_file.stat().st_size
        writer.row(1.0, {"frames": 50_000, "seconds": 50_000})
        assert run.metrics_file.stat().st_size < size / 2
        print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
    """
    root, other = Path(__file__).parents[3], tmp_path / "other"
    other.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), str(other)], cwd=root, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 50, "MiB"


@pytest.mark.parametrize(
    ("content", "row"),
    [
        (b"", {}),
        (b'{"frames": 1}\n{"frames": 2, "why": "x"}\n', {"frames": 2, "why": "x"}),
        (b'{"frames": 1}\n{"frames": 2', {"frames": 1}),
        (b'{"frames": 1}\n[3]\n\xff\n{}\n', {"frames": 1}),
        (b"x" * 200_000 + b'\n{"frames": 1}\n', {"frames": 1}),
    ],
)
def test_the_last_row(tmp_path: Path, content: bytes, row: dict[str, Any]) -> None:
    file = tmp_path / "metrics.jsonl"
    assert last_row(file) == {}
    file.write_bytes(content)
    assert last_row(file) == row
