import math
from collections.abc import Callable
from io import StringIO

import pytest
from rich.cells import cell_len
from rich.console import Console, RenderableType

from common.run.status import CheckpointStatus, FleetStatus, KeyStatus, PeerStatus, RunStatus
from deploy.cli.view.panel import (
    HEIGHT,
    WIDTH,
    actors_table,
    keys_table,
    launchers_table,
    limit,
    line,
    progress,
    relays_table,
    render,
)
from tests.helpers.status import evaluation_status, relay_status

Run = Callable[..., RunStatus]
Peer = Callable[..., PeerStatus]


def text(renderable: RenderableType, width: int = WIDTH) -> str:
    console = Console(width=width, file=StringIO(), record=True)
    console.print(renderable)
    return console.export_text()


COURSE = list(map(float, range(60)))


def test_the_panel_holds_every_figure(run_status: Run, peer: Peer) -> None:
    shown = text(render(run_status(actors=[peer()], warnings=["lab-01: it hurts"]), COURSE))
    for figure in (
        *("FlappyBird-v0", "a3c", "dense", "running", "12:04"),
        *("87.3", "▁", "█", "best 92.1", "goal 100", "12,345", "86.4 steps", "23.1 s each"),
        *("1,204,320", "4,312/s", "60,216", "215.3/s", "stale 12", "1.2", "p95 4", "34 %", "17.5k parameters on cpu"),
        *("5.0 MB/s", "in 1.1 GB", "out 4.2 GB", "int8+lz4", "12 / 13", "mean episode 23.1 s > 20 s"),
        *("-0.0123  policy  value 0.231", "entropy 0.612", "norm 1.73", "60 %", "1.2M of 2.0M frames", "3:04 left"),
        *("lab-01", "30.1k", "1,071", "1.1", "working", "! lab-01: it hurts"),
    ):
        assert figure in shown, figure


def test_an_evaluation_has_a_row_of_its_own(run_status: Run) -> None:
    status = run_status(evaluation=evaluation_status(), best_evaluation=evaluation_status(mean=95.5))
    shown = text(render(status, COURSE))
    assert "evaluation" in shown
    assert "91.5  88.2 to 94.8   best 95.5   40 episodes, 0:34 old" in shown
    assert "return 87.3  evaluated 91.5 (0:34 old)  length" in line(status)
    single = run_status(evaluation=evaluation_status(low=None, high=None, episodes=1))
    assert "91.5  1 episodes, 0:34 old" in text(render(single, COURSE))
    assert "evaluation" not in text(render(run_status(), COURSE))


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("actors", [0, 1, 5, 6, 40])
@pytest.mark.parametrize("warnings", [0, 9])
def test_the_panel_fits(run_status: Run, peer: Peer, width: int, actors: int, warnings: int) -> None:
    status = run_status(
        actors=[peer(name=f"lab-{number:02d}" * 9, last_error="it hurts " * 40) for number in range(actors)],
        warnings=[f"{number} " * 200 for number in range(warnings)],
        losses={f"figure_{number}": 1e-3 for number in range(32)},
        why="because " * 100,
        epoch=12,
        network="dense " * 20,
        duplicates=10**9,
        refused=10**9,
        evaluation=evaluation_status(),
    )
    rows = text(render(status, COURSE, HEIGHT), width).splitlines()
    assert len(rows) <= HEIGHT
    assert {cell_len(row) for row in rows} == {width}


@pytest.mark.parametrize("actors", [0, 3, 40])
@pytest.mark.parametrize("relays", [1, 2, 5, 6, 30])
def test_relays_are_shown_where_they_fit(run_status: Run, peer: Peer, relays: int, actors: int) -> None:
    status = run_status(
        relays=[relay_status(name=f"hub-{number:02d}", last_error="it hurts " * 40) for number in range(relays)],
        actors=[peer(name=f"lab-{number:02d}") for number in range(actors)],
    )
    shown = text(render(status, COURSE, HEIGHT), 80)
    assert len(shown.splitlines()) <= HEIGHT
    assert ("hub-00" in shown) == (relays <= 6)


def test_a_relay_s_actors_are_shown_on_demand_and_those_that_it_does_not_name_are_counted() -> None:
    some = [relay_status(), relay_status(name="attic", site={}, site_stale=0, actors=0)]
    short, whole = (text(relays_table(some, whole=whole), 100) for whole in (False, True))
    assert short.splitlines()[1].split()[:3] == ["attic", "0", "30.1k"]
    assert "stale there 17" in short and "there-0" not in short
    assert [line.split()[0] for line in whole.splitlines()[1:]] == ["attic", "hub", "there-0", "there-1", "and"]
    assert "and 1 more" in whole and "812" in whole


def test_a_lower_terminal_gets_fewer_actors(run_status: Run, peer: Peer) -> None:
    status = run_status(actors=[peer(name=f"lab-{number:02d}") for number in range(40)])
    for height in (30, 20, 18, 16):
        assert len(text(render(status, (), height)).splitlines()) <= height
    assert "lab-00" not in text(render(status, (), 16))


def test_a_run_that_has_just_begun(run_status: Run) -> None:
    status = run_status(
        mean_return=None,
        best_return=None,
        episode_length=None,
        episode_seconds=None,
        losses={},
        goal=None,
        frames_left=None,
        stale=0,
        frames_per_second=0.0,
    )
    shown = text(render(status, ()))
    assert "best –" in shown
    assert "5.0 MB/s" in shown
    assert "no limit is set" in shown
    assert "losses" not in shown
    assert "stale" not in shown
    assert "return -" in line(status)


def test_figures_that_are_no_numbers_do_no_harm(run_status: Run, peer: Peer) -> None:
    broken = dict.fromkeys(
        ("mean_return", "learner_busy", "lag_mean", "frames_per_second", "episode_seconds"), math.nan
    )
    status = run_status(**broken, seconds=math.inf, actors=[peer(lag=math.nan, seen=math.inf)])
    assert "nan" in text(render(status, COURSE))
    assert line(status)


def test_text_from_the_network_is_neither_markup_nor_an_escape(
    run_status: Run, peer: Peer, fleet: Callable[..., FleetStatus]
) -> None:
    evil = "[bold]x[/nonsense]\x1b]0;owned\x07\x1b[2J\r\n"
    status = run_status(
        **dict.fromkeys(("state", "env", "algorithm", "network", "codec", "device", "why"), evil),
        losses={evil: 1.0},
        warnings=[evil],
        actors=[peer(name=evil, last_error=evil), peer(state=evil)],
    )
    for shown in (
        text(render(status, ()), 300),
        text(launchers_table([fleet(name=evil, why=evil)]), 300),
        text(keys_table([KeyStatus(name=evil, roles=[evil], peers=1, seen=None)]), 300),
        line(status) + "\n",
    ):
        assert "\x1b" not in shown
        assert "\x07" not in shown
        assert "\r" not in shown
        assert "[bold]x[/nonsense]" in shown


def test_actors_with_errors_come_first_and_the_rest_is_counted(peer: Peer) -> None:
    peers = [peer(name=f"lab-{number:02d}") for number in range(9)] + [peer(name="zebra", last_error="it hurts")]
    rows = text(actors_table(peers, 4)).splitlines()
    assert [row.split()[0] for row in rows] == ["actor", "zebra", "lab-00", "lab-01", "and"]
    assert "and 7 more" in rows[-1]


def test_a_launcher_that_gave_up_says_why(fleet: Callable[..., FleetStatus]) -> None:
    shown = text(
        launchers_table(
            [
                fleet(),
                fleet(name="lab", gave_up=True, exit_code=78, retry_seconds=40, why="no such environment"),
                fleet(name="attic", retry_seconds=9, why="h2: no such environment"),
            ]
        ),
        140,
    )
    assert shown.splitlines()[1].split() == ["gpu-box", "8", "7", "6", "1", "2"]
    assert "gave up (exit code 78, next try in 40 s): no such environment" in shown
    assert "next try in 9 s: h2: no such environment" in shown


def test_the_nearest_limit_is_shown(run_status: Run) -> None:
    status = run_status(frames_left=3 * 1_204_320, episodes_left=12_345, seconds_left=7240.0)
    assert limit(status) == (0.5, "12.3k of 24.7k episodes")
    assert limit(run_status(frames_left=None, seconds_left=724.0)) == (0.5, "12:04 left")
    assert limit(run_status(frames=0, frames_left=0, frames_per_second=0.0)) == (1.0, "0 of 0 frames   – left")
    assert limit(run_status(frames_left=None)) is None
    assert "no limit" in text(progress(run_status(frames_left=None)))


def test_the_line(run_status: Run) -> None:
    assert line(run_status()) == (
        "frames 1,204,320  return 87.3  length 86.4  4,312 frames/s  215.3 gradients/s  lag 1.2  busy 34 %  "
        "actors 12/13  done 60 %"
    )
    assert line(run_status(state="reached")).endswith("  reached")


def test_the_exchange_is_shown_with_its_codec(run_status: Run) -> None:
    assert "trajectories lz4" in text(render(run_status(exchange="trajectories", codec="lz4"), ()))


@pytest.mark.parametrize(
    ("checkpoint", "shown"),
    [
        (CheckpointStatus(), "4,312/s   no checkpoint yet"),
        (CheckpointStatus(version=7, age=12.4), "4,312/s   checkpoint 0:12 old"),
        (
            CheckpointStatus(version=7, age=125.0, error="x/checkpoints: full"),
            "checkpoint 2:05 old: x/checkpoints: full",
        ),
        (CheckpointStatus(error="x/checkpoints: full"), "no checkpoint yet: x/checkpoints: full"),
    ],
)
def test_what_is_on_the_disk_is_shown(run_status: Run, checkpoint: CheckpointStatus, shown: str) -> None:
    status = run_status(checkpoint=checkpoint)
    assert shown in text(render(status, COURSE), 120)
    assert ("checkpoint fails" in line(status)) == bool(checkpoint.error)
