from __future__ import annotations

import msgspec
import pytest
import torch

from common.errors import ConfigurationError
from learner.applied import Added, AnyEntry, Began, Stepped
from learner.effects import Effect, Record
from learner.exchange.base import Exchange
from learner.exchange.recorder import CHECKSUM_BYTES, Recorder
from learner.parameters.step_result import StepResult
from learner.run import Run
from learner.run_stats import Counters
from tests.helpers.run import BAD, CODEC, NotedSum, exchange_of, gradient_of, hello_of, run_of, settings_of

RECORD = "record.gradients=true"


def entries(effects: list[Effect]) -> list[AnyEntry]:
    return [effect.entry for effect in effects if isinstance(effect, Record)]


def started(*assignments: str, version: int = 5) -> tuple[Run, Exchange, NotedSum]:
    run = run_of(settings_of(*assignments), epoch=2, counters=Counters(version=version, frames=90, stepped_frames=80))
    noted = NotedSum(version)
    peer, _ = run.peers.join(b"x", hello_of(), 0.0)
    peer.codec = CODEC
    return run, exchange_of(run, noted), noted


def send(run: Run, exchange: Exchange, sequence: int, version: int, body: bytes = b"gradient") -> list[Effect]:
    peer = run.peers.get(b"x")
    assert peer is not None
    return exchange.handle(1.0, b"x", peer, gradient_of(sequence, version, epoch=2), body)


def test_what_is_applied_is_recorded_with_all_that_the_step_depends_on() -> None:
    run, exchange, noted = started(RECORD)
    before = noted.weights.checksum
    assert entries(exchange.begin()) == [
        Began(
            a3cd="not installed",
            run="a-run",
            epoch=2,
            settings=msgspec.to_builtins(run.spec.settings),
            model=run.spec.model,
            parameters=2,
            version=5,
            frames=80,
            checksum=before,
        )
    ]
    (added,) = (effect for effect in send(run, exchange, 1, 4) if isinstance(effect, Record))
    assert isinstance(added.entry, Added)
    assert (added.entry.peer, added.entry.incarnation, added.entry.lag) == ("a", "a-1", 1)
    assert (added.entry.header, added.body) == (gradient_of(1, 4, epoch=2), b"gradient")
    ((_, weight),) = [(body, weight) for body, _, weight in noted.added]
    assert added.entry.weight == weight
    (stepped,) = entries(exchange.step(2.0))
    assert stepped == Stepped(version=6, scale=weight, frames=110, checksum=noted.weights.checksum)
    assert stepped.checksum != before
    assert [type(entry) for entry in entries(send(run, exchange, 2, 6))] == [Added]


def test_what_is_not_applied_is_not_recorded() -> None:
    run, exchange, _ = started(RECORD, version=100)
    assert entries(send(run, exchange, 1, 0)) == [], "stale"
    assert entries(send(run, exchange, 1, 100)) == [], "a duplicate"
    assert entries(send(run, exchange, 2, 100, BAD)) == [], "refused"
    assert entries(exchange.step(2.0)) == []


def test_nothing_is_recorded_unless_it_is_asked_for() -> None:
    run, exchange, _ = started()
    assert entries(exchange.begin()) == entries(send(run, exchange, 1, 5)) == entries(exchange.step(2.0)) == []


def test_large_weights_have_a_checksum_now_and_then() -> None:
    run, _, noted = started(RECORD)
    noted.weights.vector = torch.zeros(CHECKSUM_BYTES)  # four times the bytes of one checksum
    recorder = Recorder(run, noted.weights)
    with_checksum = []
    for version in range(8, 16):
        run.stats.counters.version = version
        (effect,) = recorder.stepped(1.0, 0, StepResult())
        assert isinstance(effect.entry, Stepped)
        with_checksum += [version] if effect.entry.checksum is not None else []
    assert with_checksum == [8, 12]


def test_what_was_left_out_of_the_step_is_told_by_its_number() -> None:
    run, _, noted = started(RECORD)
    (effect,) = Recorder(run, noted.weights).stepped(1.0, 0, StepResult(left_out={2: "not finite", 0: "not finite"}))
    assert isinstance(effect.entry, Stepped) and effect.entry.left_out == [0, 2]


def test_actions_cannot_be_recorded() -> None:
    with pytest.raises(ConfigurationError, match=r"needs record\.gradients = false: the learner plays itself"):
        settings_of(RECORD, "exchange.kind=actions")
