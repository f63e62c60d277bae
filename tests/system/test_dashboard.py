"""`a3cd dashboard` in a real browser: a run while it goes on, without its learner, and when it has ended."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.run.status import KeyStatus
from deploy.dashboard.watched import Past, WatchedRun
from tests.helpers.browser import Browser, browser, missing, paints
from tests.helpers.daemons import Daemon, Daemons, free_address, terminate
from tests.helpers.status import fleet_status, peer_status, relay_status, run_status
from tests.helpers.waiting import until

pytest.importorskip("bokeh")
from tests.helpers.dashboard import served  # what it starts needs it

pytestmark = [pytest.mark.system, pytest.mark.timeout(300), missing]

RUN = """
[environment]
id = "CartPole-v1"
num_envs = 1
[limits]
frames = 1_000_000_000
[scaling]
policy = "fixed"
minimum = 1
maximum = 1
"""
PHONE = (390, 844)


@pytest.fixture(scope="module")
def page() -> Iterator[Browser]:
    with browser() as one:
        yield one


def dashboard(daemons: Daemons, *words: object) -> str:
    """Its page's URL."""
    one = daemons.start("dashboard", *words, "--listen", "127.0.0.1:0", "--timeout", 0)
    found = until(lambda: re.search(r"at (http://127\.0\.0\.1:\d+/)", one.said), "the page's address", of=one)
    return found[1]


def stop_playing(*some: Daemon) -> None:
    assert set(terminate(*some)) == {143}


def test_a_run_is_seen_live_without_its_learner_and_when_it_has_ended(daemons: Daemons, page: Browser) -> None:
    address, folder = free_address(), daemons.folder / "run"
    where = ("--bind", address, "--run-dir", folder)
    learner = daemons.start("learner", "--config", daemons.config(RUN), *where)
    page.open(dashboard(daemons, address))
    actors = [daemons.start("actor", address, "--name", "first", "--nice", 10)]
    page.wait("document.querySelector('#actors-table').innerText.includes('first')")
    actors.append(daemons.start("actor", address, "--name", "second", "--nice", 10))
    page.wait("document.querySelector('#events').innerText.includes('second joined')")
    page.wait("Number(document.querySelector('#charts').dataset.points) > 2", "curves")
    assert page.text("#name") == "CartPole-v1 · a3c · dense"
    assert page.text("#link") == "live"
    assert page.script("return document.querySelectorAll('.plot > *').length") > 5

    stop_playing(learner)
    page.wait(
        "document.querySelector('#link.away')?.innerText.includes('the learner ended at')", "since when there is none"
    )
    learner = daemons.start("learner", "--resume", *where)
    page.wait("document.querySelector('#link').innerText == 'live'", "that the learner is back")
    page.wait("document.querySelector('#subtitle').innerText.includes('epoch 2')")

    stop_playing(learner, *actors)
    page.open(dashboard(daemons, folder))
    page.wait("document.querySelector('#link').innerText == 'read from its folder'")
    page.wait("Number(document.querySelector('#charts').dataset.points) > 2", "curves of the folder")
    page.wait("document.querySelector('#subtitle').innerText.includes('stopped')")
    page.script("document.querySelector('#settings').open = true")
    page.wait("document.querySelector('#settings pre').innerText.includes('CartPole-v1')")
    assert page.errors() == []


def thousand(seconds: float = 724.0) -> WatchedRun:
    run = WatchedRun("learner", "tcp://gpu-box:5555", 0.0)
    tell(run, seconds)
    return run


def tell(run: WatchedRun, seconds: float) -> None:
    """A thousand actors on forty hosts, one of which has lost its environment."""
    actors = [
        peer_status(
            name=f"lab-{host:02}-{number:02}",
            host=f"lab-{host:02}",
            last_error="no display" if host == 7 else "",
            frames_per_second=1000.0 + number,
            frames=int(100 * seconds),
        )
        for host in range(40)
        for number in range(25)
    ]
    launchers = [fleet_status(name=f"lab-{host:02}", host=f"lab-{host:02}", slots=25) for host in range(40)]
    frames = int(1e5 * seconds)
    status = run_status(seconds=seconds, frames=frames, actors=actors, launchers=launchers, actors_now=1000, time=1.0)
    run.took(seconds, status)


def test_a_thousand_actors_by_host_on_a_phone_in_the_dark_by_keyboard(page: Browser) -> None:
    run = thousand()
    with served([run]) as port:
        page.resize(*PHONE, dark=True)
        page.open(f"http://127.0.0.1:{port}/")
        page.wait("document.querySelector('#actors-count').innerText == '1,000 on 40 hosts'")
        assert page.script("return document.documentElement.scrollWidth") <= PHONE[0]
        assert page.script("return getComputedStyle(document.body).backgroundColor") == "rgb(21, 23, 26)"
        assert page.script("return document.querySelectorAll('#actors-table tbody tr').length") == 40, "all closed"

        page.script("document.querySelector('#actors-table tbody button').focus()")
        page.keys("\ue007")  # Enter
        page.wait("document.querySelectorAll('#actors-table tbody tr').length == 65", "the first host's actors")
        page.keys("/display")
        page.wait("document.querySelector('#actors-count').innerText == '25 of 1,000 on 1 host'")

        tell(run, 800.0)
        page.wait("document.querySelector('#subtitle').innerText.includes('13:20')", "the next status")
        page.wait("document.querySelector('#charts').dataset.points == '2'", "its point in the curves")
        assert page.script("return document.documentElement.scrollWidth") <= PHONE[0]
        assert page.errors() == []


def test_the_actors_of_a_relay_and_the_keys(page: Browser) -> None:
    key = KeyStatus(name="hub", roles=["relay"], peers=1, seen=75.0)
    run = WatchedRun("learner", "tcp://gpu-box:5555", 0.0)
    run.took(1.0, run_status(relays=[relay_status(last_error="no display")], keys=[key], actors_now=3, time=1.0))
    with served([run]) as port:
        page.resize(*PHONE)
        page.open(f"http://127.0.0.1:{port}/")
        page.wait("document.querySelector('#actors-count').innerText == '0 on 0 hosts, 3 behind relays'")
        assert page.script("return document.querySelectorAll('#relays-table tbody tr').length") == 1, "closed"
        page.script("document.querySelector('#relays-table tbody button').click()")
        rows = page.script("return [...document.querySelectorAll('#relays-table tbody tr')].map(row => row.innerText)")
        assert [" ".join(row.split()) for row in rows[1:]] == ["there-0 812.5", "there-1 790.0", "and 1 more"]
        page.script("document.querySelector('#keys').open = true")
        shown = page.script("return document.querySelector('#keys-table tbody').innerText")
        assert " ".join(shown.split()) == "hub relay 1 1:15 ago"
        assert "2,071" in rows[0] and "no display" in rows[0]
        assert page.script("return document.documentElement.scrollWidth") <= PHONE[0]
        assert page.errors() == []


def test_two_runs_beside_each_other_and_the_zoom_by_keyboard(page: Browser) -> None:
    first, second = thousand(100.0), WatchedRun("folder", "runs/other", 0.0)
    for seconds in range(101, 300):
        tell(first, float(seconds))
        second.took(0.0, run_status(env="CartPole-v1", seconds=float(seconds), frames=seconds))
    with served([first, second]) as port:
        page.resize(1280, 900)
        page.open(f"http://127.0.0.1:{port}/")
        page.wait("document.querySelector('#charts').dataset.points == '200'", "curves")
        page.script("document.querySelector('#charts').focus()")
        page.keys("+")
        page.wait("Number(document.querySelector('#charts').dataset.points) < 110", "half of them")
        page.keys("0")
        page.wait("document.querySelector('#charts').dataset.points == '200'", "all of them")
        page.script("document.querySelector('#beside input').click()")
        page.wait("document.querySelector('.chart h3').innerText.includes('other')", "the other run's colour")
        page.script("document.activeElement.blur()")
        page.keys("2")
        page.wait("document.querySelector('#name').innerText.startsWith('CartPole-v1')")
        assert page.errors() == []


def test_another_run_is_shown_whole_whatever_part_of_the_one_before_was(page: Browser) -> None:
    first, second = (WatchedRun("folder", f"runs/{name}", 0.0) for name in ("long", "short"))
    for seconds in range(1000, 1200):
        first.took(0.0, run_status(seconds=float(seconds), frames=seconds))
    for seconds in range(50):
        second.took(0.0, run_status(seconds=float(seconds), frames=seconds))
    with served([first, second]) as port:
        page.resize(1280, 900)
        page.open(f"http://127.0.0.1:{port}/")
        page.wait("document.querySelector('#charts').dataset.points == '200'", "curves")
        page.script("document.querySelector('#span input[value=\"0.05\"]').click()")
        page.wait("Number(document.querySelector('#charts').dataset.points) < 20", "the last of them")
        page.keys("2")
        page.wait("document.querySelector('#charts').dataset.points == '50'", "all of the other run")
        assert page.script("return document.querySelector('#span input:checked').value") == "1"
        assert page.errors() == []


def test_what_is_known_once_is_a_point(page: Browser) -> None:
    """Of a run that was over within two seconds: a line of one point would not be seen."""
    run = WatchedRun("learner", "tcp://gpu-box:5555", 0.0)
    run.took(0.0, run_status(seconds=0.1, frames=0, mean_return=None))
    run.took(1.0, run_status(seconds=1.1, frames=1000))
    glyphs = "Bokeh.documents.at(-1).roots()[0].renderers.map(one => one.glyph.type).join()"
    with served([run]) as port:
        page.open(f"http://127.0.0.1:{port}/")
        page.wait("document.querySelector('#charts').dataset.points == '2'", "curves")
        page.wait(f"{glyphs} == 'Line,Scatter'")
        run.took(2.0, run_status(seconds=2.1, frames=2000))
        page.wait("document.querySelector('#charts').dataset.points == '3'", "the next status")
        page.wait(f"{glyphs} == 'Line'")
        assert page.errors() == []


def test_curves_come_once_their_scripts_can_be_had(page: Browser) -> None:
    with served([thousand(30.0)]) as port:
        page.command("Network.enable")
        page.command("Network.setBlockedURLs", urls=["*/bokeh/*"])
        page.open(f"http://127.0.0.1:{port}/")
        page.wait("document.querySelectorAll('script[src*=bokeh]').length > 1", "asked for again")
        assert paints(page) > 0, "the page, with a thousand actors, does not wait for them"
        assert page.errors() == []
        page.command("Network.setBlockedURLs", urls=[])
        page.wait("document.querySelector('#charts').dataset.points > 0", "curves")


def test_the_password_is_asked_for(daemons: Daemons, page: Browser, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("open sesame\n")
    file.chmod(0o600)
    page.open(dashboard(daemons, free_address(), "--password-file", file))
    page.wait("document.activeElement.id == 'password'", "a field that waits for it")
    page.keys("guess\ue007")
    page.wait("document.body.innerText.includes('This is not the password') && document.activeElement.id == 'password'")
    page.keys("open sesame\ue007")
    page.wait("document.querySelector('#link')?.innerText.startsWith('waiting for')")
    page.script("document.querySelector('#logout button').click()")
    page.wait("location.pathname == '/login'")


def events(page: Browser) -> list[str]:
    found = page.script(
        "return [...document.querySelectorAll('#events li')].map(one => one.lastElementChild.innerText)"
    )
    assert isinstance(found, list)
    return found


def test_the_timeline_is_that_of_the_chosen_run_and_of_the_dashboard_that_answers(page: Browser) -> None:
    first, second = (WatchedRun("learner", f"tcp://{host}:5555", 0.0) for host in ("one", "two"))
    first.took(0.0, run_status(env="CartPole-v1"))
    first.took(1.0, run_status(env="CartPole-v1", actors=[peer_status(name="early")]))
    second.took(0.0, run_status(env="Acrobot-v1"))
    again = WatchedRun("learner", "tcp://two:5555", 0.0)
    again.took(0.0, run_status(env="Pendulum-v1"))
    runs = [first, second]
    with served(runs) as port:
        page.open(f"http://127.0.0.1:{port}/")
        page.wait("document.querySelectorAll('#events li').length == 2")
        assert events(page)[0] == "early joined"
        page.keys("2")
        page.wait("document.body.dataset.ready == '1'")
        assert events(page) == ["watched from here: Acrobot-v1, a3c, running"]
        second.took(1.0, run_status(env="Acrobot-v1", state="stopped"))
        page.wait("document.querySelectorAll('#events li').length == 2")
        runs[1] = again
        page.wait("document.querySelectorAll('#events li').length == 1")
        assert events(page) == ["watched from here: Pendulum-v1, a3c, running"]
        assert page.errors() == []


def test_questions_that_overlap_tell_an_event_once(page: Browser) -> None:
    """A page that is looked at again asks at once, though an earlier answer may still be on a slow way."""
    run = WatchedRun("learner", "tcp://gpu-box:5555", 0.0)
    run.took(0.0, run_status())
    with served([run]) as port:
        page.open(f"http://127.0.0.1:{port}/")
        page.wait("document.querySelectorAll('#events li').length == 1")
        page.script(
            "window.held = []; window.genuine = window.fetch;"
            "window.fetch = (...words) => new Promise((resolve) => held.push(() => resolve(genuine(...words))));"
            "for (let turn = 0; turn < 2; turn++) document.dispatchEvent(new Event('visibilitychange'));"
        )
        run.took(1.0, run_status(actors=[peer_status(name="late")]))
        page.script("window.fetch = window.genuine; for (const release of held) release();")
        page.wait("document.querySelectorAll('#events li').length > 1")
        run.took(2.0, run_status(actors=[peer_status(name="late")], state="stopped"))
        page.wait("document.querySelector('#events').innerText.includes('now stopped')")
        first = f"watched from here: {run_status().env}, {run_status().algorithm}, running"
        assert events(page) == ["running, now stopped", "late joined", first]
        assert page.errors() == []


def test_settings_that_come_late_are_not_those_of_the_next_run(page: Browser) -> None:
    runs = [WatchedRun("folder", f"runs/{name}", 0.0) for name in ("one", "two")]
    for run in runs:
        run.read(0.0, Past(settings=f"# of {run.where}"), {"env": "CartPole-v1", "state": "reached"})
    with served(runs) as port:
        page.open(f"http://127.0.0.1:{port}/")
        page.wait("document.body.dataset.ready == '0'")
        page.script(
            "const genuine = window.fetch;"
            "window.fetch = (...words) => new Promise((come) => { window.held = () => come(genuine(...words)); });"
            "document.querySelector('#settings').addEventListener('toggle', () => { window.fetch = genuine; });"
            "document.querySelector('#settings').open = true"
        )
        page.wait("typeof window.held == 'function'")
        page.keys("2")
        page.wait("document.body.dataset.ready == '1'")
        page.script("window.held()")
        page.script("document.querySelector('#settings').open = true")
        page.wait("document.querySelector('#settings pre').innerText != ''")
        assert page.text("#settings pre") == "# of runs/two"
        assert page.errors() == []


def test_actors_of_the_same_name_on_one_host(page: Browser) -> None:
    """Two that were started by hand with one --name take turns at first, and stay as soon as both have sent."""
    run = WatchedRun("learner", "tcp://gpu-box:5555", 0.0)
    run.took(1.0, run_status(actors=[peer_status(name="mine", launcher="", pid=pid) for pid in (11, 12)], time=1.0))
    with served([run]) as port:
        page.open(f"http://127.0.0.1:{port}/")
        page.wait("document.querySelectorAll('#actors-table tbody tr').length == 3", "the host and its two actors")
        titles = page.script("return [...document.querySelectorAll('#actors-table tbody tr')].map(one => one.title)")
        assert titles[1:] == ["process 11", "process 12"]
        assert page.text("#link") == "live"
        assert page.errors() == []
