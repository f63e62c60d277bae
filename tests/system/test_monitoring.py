"""A Prometheus scrapes a run over a restart of its learner, and a dashboard for the runs that it watches."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from common.errors import EXIT_SIGTERM
from common.host.addresses import Address
from tests.helpers.daemons import Daemon, Daemons, free_address, status_when, terminate
from tests.helpers.status import run_status
from tests.helpers.waiting import until

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]
pytest.importorskip("prometheus_client", reason="needs the extra prometheus")
SETTINGS = """
[environment]
id = "CartPole-v1"
step_seconds = 0.002 # a core is left for the tests
[scaling]
policy = "fixed"
minimum = 1
"""
RULES = Path(__file__).parents[2] / "deploy" / "monitoring" / "alerts.yml"
SCRAPES = """
global: {{ scrape_interval: 500ms, evaluation_interval: 500ms }}
rule_files: ["{rules}"]
scrape_configs: [{{ job_name: a3cd, static_configs: [{{ targets: ["{target}"] }}] }}]
"""


class Server:
    def __init__(self, at: str) -> None:
        self._at = at

    def asks(self, query: str) -> dict[str, float]:
        """The answer of now: values by their epoch, where there is one."""
        words = urllib.parse.urlencode({"query": query})
        with suppress(OSError):  # it has not begun yet
            with urllib.request.urlopen(f"http://{self._at}/api/v1/query?{words}", timeout=10.0) as answer:
                found = json.load(answer)["data"]["result"]
            return {one["metric"].get("epoch", ""): float(one["value"][1]) for one in found}
        return {}


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[Server]:
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("needs a Prometheus (Debian's package prometheus)")
    config = folder / "prometheus.yml"
    config.write_text(SCRAPES.format(rules=RULES, target=target))
    at = f"127.0.0.1:{free_address().port}"
    words = [f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={at}"]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen([program, *words], stdout=log, stderr=log, cwd=folder)
    try:
        yield Server(at)
    finally:
        process.kill()
        process.wait()


def learner(house: Daemons, bind: Address, metrics: Address, *words: object) -> Daemon:
    return house.start(
        *("learner", "--bind", bind, "--run-dir", house.folder / "run", "--metrics", metrics.port, *words)
    )


def test_a_run_is_scraped_and_scraped_again_after_a_restart(daemons: Daemons, tmp_path: Path) -> None:
    bind, metrics = free_address(), free_address()
    with prometheus(tmp_path, f"127.0.0.1:{metrics.port}") as server:
        first = learner(daemons, bind, metrics, "--config", daemons.config(SETTINGS))
        daemons.start("actor", bind)
        status = status_when(bind, lambda status: status.frames > 1000, "frames")
        frames = until(lambda: server.asks(f"a3cd_frames_total > {status.frames - 1}"), "its frames", of=daemons)
        assert set(frames) == {"1"}
        # One scrape may fail: a busy machine takes longer for it than this impatient server waits.
        for query in ('up{job="a3cd"} == 1', "a3cd_actors == 1", "count(a3cd_run_info) == 1"):
            until(lambda query=query: server.asks(query), query, of=daemons)  # type: ignore[misc]
        assert terminate(first) == [EXIT_SIGTERM]

        learner(daemons, bind, metrics, "--resume")
        until(lambda: server.asks(f'a3cd_frames_total{{epoch="2"}} > {frames["1"]}'), "more frames", of=daemons)
        # Those of the first epoch end with the first scrape without them.
        until(lambda: set(server.asks("a3cd_frames_total")) == {"2"}, "the second epoch alone", of=daemons)


def test_a_dashboard_is_scraped_for_all_the_learners_that_it_watches(tmp_path: Path) -> None:
    pytest.importorskip("bokeh", reason="needs the extra dashboard")
    from deploy.dashboard.watched import WatchedRun
    from tests.helpers.dashboard import served

    watched = []
    for name in ("one", "other"):
        run = WatchedRun("learner", f"tcp://{name}:5555", 0.0)
        run.took(1.0, run_status(run=name, actors_now=2))
        watched.append(run)
    with served(watched) as port, prometheus(tmp_path, f"127.0.0.1:{port}") as server:
        until(lambda: server.asks("count(a3cd_actors == 2) == 2"), "both runs")
