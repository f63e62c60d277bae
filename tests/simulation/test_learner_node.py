from __future__ import annotations

import pytest

from learner.effects import ReadBest
from learner.exchange import step_rule
from simulation.settings import Costs
from tests.helpers.simulated import cluster_of

ENDLESS = ("limits.frames=0", "limits.seconds=60")


@pytest.mark.parametrize(
    ("costs", "kind"),
    [
        (Costs(batch_step=0.02, message=0.01, message_mib=0.0, optimizer_step=0.0), "gradients"),
        (Costs(batch_step=0.02, message=0.0, message_mib=20.0, optimizer_step=0.0), "gradients"),
        (Costs(batch_step=0.02, message=0.0, optimizer_step=0.01), "gradients"),
        (Costs(batch_step=0.02, message=0.0, optimizer_step=0.0, learner_frame=1e-3), "trajectories"),
    ],
)
def test_what_it_does_takes_its_time(costs: Costs, kind: str) -> None:
    cluster, _ = cluster_of(*ENDLESS, f"exchange.kind={kind}", costs=costs)
    cluster.run(10.0)
    assert 0.05 < cluster.status().learner_busy < 0.9


def test_one_that_costs_nothing_is_never_busy() -> None:
    cluster, _ = cluster_of(*ENDLESS, costs=Costs(batch_step=0.02, message=0.0, message_mib=0.0, optimizer_step=0.0))
    cluster.run(5.0)
    assert cluster.status().learner_busy == 0.0
    assert cluster.status().gradients > 0


def test_messages_wait_while_it_is_busy() -> None:
    cluster, _ = cluster_of(*ENDLESS, actors=6, costs=Costs(batch_step=0.01, optimizer_step=0.5))
    cluster.run(10.0)
    assert cluster.learner.most_waiting >= 5


def test_messages_of_many_gather(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_rule, "GATHER_ACTORS", 6)
    monkeypatch.setattr(step_rule, "GATHER_SECONDS", 0.5)
    cluster, _ = cluster_of(*ENDLESS, actors=6, costs=Costs(batch_step=0.01))
    cluster.run(10.0)
    assert cluster.learner.most_waiting >= 5
    assert cluster.status().gradients >= 6 * 10


def test_a_message_that_is_none_is_refused() -> None:
    cluster, recorder = cluster_of(*ENDLESS)
    cluster.run(2.0)
    cluster.learner.receive(b"a stranger", "10.0.0.9", [b"nonsense"])
    cluster.run(2.1)
    assert any("no message" in text for _, text in recorder.lines)


def test_one_that_is_killed_does_nothing_more() -> None:
    cluster, recorder = cluster_of(*ENDLESS)
    cluster.run(3.0)
    cluster.learner.kill()
    rows = len(recorder.rows)
    cluster.run(6.0)
    assert len(recorder.rows) == rows
    assert not any(connection.open for connection in cluster.network.connections())


def test_the_core_is_told_what_the_disk_holds() -> None:
    cluster, recorder = cluster_of(*ENDLESS, "limits.window=1", "checkpoint.every_seconds=1")
    cluster.run(8.5)
    node, saves = cluster.learner, cluster.learner.core.run.saves
    assert recorder.newest is not None and saves.version == recorder.newest.version
    told: list[object] = []
    node.core.best_read = lambda now, checkpoint, error: told.append((checkpoint, error)) or []  # type: ignore
    node._do([ReadBest()])
    cluster.run(8.6)
    assert told == [(recorder.best, "")]
