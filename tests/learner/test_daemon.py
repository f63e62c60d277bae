"""The learner's shell, in this process; who talks to it is in a thread."""

from __future__ import annotations

import json
import logging
import os
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
import zmq

from common.errors import ConfigurationError, EnvironmentMissingError, UnavailableError
from common.run.folder import CheckpointPaths, RunFolder
from common.settings.sections import Settings
from common.wire.bodies.broadcast import Broadcast, run_mark
from common.wire.messages import (
    Acknowledgement,
    Goodbye,
    Inspect,
    Pull,
    Refused,
    Status,
    Stop,
    Weights,
)
from learner import daemon, health, return_to_best, save_schedule
from learner.daemon import run
from learner.exchange import step_rule
from learner.parameters.weights import Weights as WeightStore
from learner.record.gradient_history import History
from tests.helpers.daemons import free_address
from tests.helpers.peer import PATIENCE_MS, Peer
from tests.helpers.run import gradient_of, hello_of, settings_of
from tests.helpers.waiting import until

pytestmark = pytest.mark.slow

SMALL = (
    *("network.hidden=[8]", "environment.num_envs=2", "exchange.codec='none'", "exchange.entropy_coder='none'"),
    "algorithm.max_grad_norm=0",
)
GRADIENTS, RECORD_BYTES = 100, 50_000
"""More gradients than fit into a record of so many bytes."""


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.fixture(autouse=True)
def dismissed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer here says no goodbye."""
    monkeypatch.setattr(daemon, "DISMISS_SECONDS", 0.0)


@pytest.fixture
def learn(tmp_path: Path, context: zmq.Context[zmq.Socket[bytes]]) -> Callable[..., int]:
    """Runs a learner in `run` while `script(peer)` runs beside it; the learner's exit code."""

    def one(script: Callable[[Peer], None], settings: Settings | None, *, resume: bool = False) -> int:
        address = free_address()
        failures: list[BaseException] = []

        def play() -> None:
            try:
                script(Peer(context, address))
            except BaseException as error:
                failures.append(error)
                interrupt()

        thread = threading.Thread(target=play)
        thread.start()
        try:
            return run(settings, bind=address, keys=None, run_dir=tmp_path / "run", resume=resume)
        finally:
            thread.join()
            for failure in failures:
                raise failure

    return one


def test_who_comes_when_the_run_is_over_is_told_so(learn: Callable[..., int], monkeypatch: pytest.MonkeyPatch) -> None:
    """It would wait for ever; the learner ends when all have left."""
    monkeypatch.setattr(daemon, "DISMISS_SECONDS", 1e9)

    def script(peer: Peer) -> None:
        peer.join()
        peer.push(steps=20)
        assert peer.hear(Stop)[0].final
        assert peer.hear(Stop)[0].final, "said again to one that has not left"
        late = Peer(peer._context, peer.address)
        late.say(hello_of("late", host="elsewhere"))
        assert late.hear(Stop)[0].final
        peer.say(Goodbye(reason="the run is over"))

    assert learn(script, settings_of(*SMALL, "limits.frames=20")) == 0


def test_peers_that_come_and_go_fill_no_log(
    learn: Callable[..., int], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon, "LINES_PER_SECOND", 0.01)  # however long it takes

    def script(peer: Peer) -> None:
        for number in range(200):
            peer.join(hello_of(f"a{number}", host="elsewhere"))
            peer.say(Goodbye(reason="because " * 500))
        peer.join()
        interrupt()

    with caplog.at_level(logging.INFO, "learner"):
        assert learn(script, settings_of(*SMALL)) == 143
    lines = [record.getMessage() for record in caplog.records]
    assert daemon.LINES_AT_ONCE <= len(lines) < 400 / 2 and max(map(len, lines)) < 1000, "400 things happened"


@pytest.mark.parametrize("gather_actors", [100, 1])
def test_a_run_to_its_limit(
    gather_actors: int, learn: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_rule, "GATHER_ACTORS", gather_actors)

    def script(peer: Peer) -> None:
        peer.join()
        assert peer.push(steps=20) == Acknowledgement(sequence=1, verdict="applied", version=1, credit=1, actors=1)
        peer.push(steps=20, version=1)
        stop, _ = peer.hear(Stop)
        assert (stop.final, stop.reason) == (True, "40 of 40 frames")

    assert learn(script, settings_of(*SMALL, "limits.frames=40")) == 0
    folder = RunFolder(tmp_path / "run")
    summary = json.loads(folder.summary_file.read_text())
    assert (summary["state"], summary["frames"], summary["gradients"]) == ("finished", 40, 2)
    assert (summary["gradient_bytes"], summary["mean_return"]) == (2 * 4 * folder_size(folder), 7.0)
    assert summary["lag_mean"] == 0.0, "over the whole run"
    assert folder.curve.exists()
    assert [json.loads(line)["frames"] for line in folder.metrics_file.read_text().splitlines()][-1] == 40
    newest = folder.newest()
    assert newest is not None
    assert newest.read().version == 2


def folder_size(folder: RunFolder) -> int:
    newest = folder.newest()
    assert newest is not None
    return newest.read().weights.size


def test_a_disk_that_takes_no_more_ends_the_recording_and_not_the_run(
    learn: Callable[..., int], tmp_path: Path, context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    """The kernel's limit on the size of a file stands for the disk: the record is the only one that reaches it."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def script(peer: Peer) -> None:
        peer.join()
        for version in range(GRADIENTS):
            assert peer.push(steps=20, version=version).verdict == "applied"
        observer = Peer(context, peer.address)
        observer.join(hello_of("o", "observer"))
        observer.say(Inspect())
        (warning,) = observer.hear(Status)[0].report["warnings"]
        assert "nothing more is recorded (record.gradients) until the learner is started again" in warning
        interrupt()

    resource.setrlimit(resource.RLIMIT_FSIZE, (RECORD_BYTES, limits[1]))
    try:
        learn(script, settings_of(*SMALL, "record.gradients=true"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    history = History.read(RunFolder(tmp_path / "run").gradients)
    assert (history.first, history.damage) == (0, "")
    assert 0 < history.last < GRADIENTS


@pytest.mark.parametrize("gone", [False, True])
def test_a_gpu_that_fails_ends_the_learner_which_may_be_started_again(
    gone: bool, learn: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it still gives is saved; if that is nothing, the last checkpoint counts."""
    step, failure = WeightStore.step, RuntimeError("CUDA error: unspecified launch failure\nCompile with ...")
    taken: list[int] = []

    def failing(weights: WeightStore, *args: Any, **options: Any) -> None:
        if taken:
            if gone:
                monkeypatch.setattr(WeightStore, "may_be_saved", property(lambda weights: fail()))
            fail()
        taken.append(1)
        step(weights, *args, **options)

    def fail() -> NoReturn:
        raise failure

    def script(peer: Peer) -> None:
        peer.join()
        peer.push()
        names = ("run", "epoch", "model", "codec")
        header = gradient_of(2, 1, emulator_frames=20, **{name: getattr(peer.welcome, name) for name in names})
        peer.say(header, np.zeros(peer.weights.size, np.float32).tobytes())

    monkeypatch.setattr(WeightStore, "step", failing)
    with pytest.raises(UnavailableError, match="cpu failed: CUDA error: unspecified launch failure; ") as raised:
        learn(script, settings_of(*SMALL, "checkpoint.best=false"))
    newest = RunFolder(tmp_path / "run").newest()
    version = None if newest is None else newest.read().version
    assert version == (None if gone else 1)
    assert str(raised.value).endswith("nothing of the run is safe" if gone else "safe is the checkpoint of version 1")


def test_a_signal_pauses_the_run_and_resume_goes_on(learn: Callable[..., int], tmp_path: Path) -> None:
    settings = settings_of(*SMALL, "optimizer.kind='sgd'", "optimizer.learning_rate=0.5", "optimizer.momentum=0.5")
    seen: list[np.ndarray[tuple[int], np.dtype[np.float32]]] = []

    def first(peer: Peer) -> None:
        peer.join()
        peer.push()
        interrupt()
        assert not peer.hear(Stop)[0].final
        seen.append(peer.weights)

    assert learn(first, settings) == 143
    folder = RunFolder(tmp_path / "run")
    assert json.loads(folder.summary_file.read_text())["state"] == "stopped"

    def second(peer: Peer) -> None:
        peer.join()
        assert (peer.welcome.epoch, peer.welcome.version) == (2, 1)
        seen.append(peer.weights)
        peer.push(version=1)
        interrupt()
        peer.hear(Stop)

    assert learn(second, None, resume=True) == 143
    newest = folder.newest()
    assert newest is not None
    checkpoint = newest.read()
    counters = checkpoint.state["counters"]
    assert (counters["version"], counters["frames"], counters["episodes"], counters["gradients"]) == (2, 40, 2, 2)
    np.testing.assert_allclose(seen[1], seen[0] - 0.5, atol=1e-6)
    np.testing.assert_allclose(checkpoint.weights, seen[1] - 0.75, atol=1e-6, err_msg="momentum was forgotten")


def test_weights_are_published_and_junk_is_not_answered_with_the_end(
    learn: Callable[..., int], caplog: pytest.LogCaptureFixture, context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    def script(peer: Peer) -> None:
        peer.join(hello_of("a", host="elsewhere"))
        with peer.subscribe() as subscriber:
            for frames in ([b"junk"], [b"", b""], [b"\x81"] * 5, [b"\xc1"]):
                peer.dealer.send_multipart(frames)
            version = 0
            while not subscriber.poll(50):  # until the subscription has arrived
                assert peer.push(version=version).verdict == "applied"
                version += 1
            news = Broadcast.unpack(subscriber.recv())
            assert (news.run, news.epoch, news.format) == (run_mark(peer.welcome.run), 1, "fp32")
            assert 1 <= news.version <= version
            assert len(news.body) == peer.weights.nbytes
        observer = Peer(context, peer.address)
        observer.say(hello_of("o", "observer"))
        observer.say(Inspect())
        report = observer.hear(Status)[0].report
        assert (report["state"], report["gradients"], report["actors_now"]) == ("running", version, 1)
        interrupt()

    with caplog.at_level(logging.WARNING, "learner"):
        assert learn(script, settings_of(*SMALL)) == 143
    assert len([record for record in caplog.records if "bytes that are no message" in record.getMessage()]) == 1


def test_weights_that_are_no_numbers_end_the_run_without_a_checkpoint(
    learn: Callable[..., int], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def script(peer: Peer) -> None:
        peer.join()
        peer.push(1e3)
        assert peer.hear(Stop)[0].final

    with caplog.at_level(logging.INFO, "learner"):
        assert learn(script, settings_of(*SMALL, "optimizer.kind='sgd'", "optimizer.learning_rate=1e38")) == 75
    assert "failed: the weights are no longer finite: try a smaller optimizer.learning_rate" in caplog.text
    folder = RunFolder(tmp_path / "run")
    assert folder.newest() is None
    assert json.loads(folder.summary_file.read_text())["state"] == "failed"


def test_an_actor_of_another_protocol_is_told_so(learn: Callable[..., int]) -> None:
    def script(peer: Peer) -> None:
        peer.say(hello_of("old", protocol=999))
        refused, _ = peer.hear(Refused)
        assert (refused.code, "protocol 999" in refused.reason) == ("protocol", True)
        interrupt()

    assert learn(script, settings_of(*SMALL)) == 143


def test_a_run_that_cannot_begin_leaves_nothing(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    with pytest.raises(EnvironmentMissingError, match="NoSuch-v0"):
        run(settings_of("environment.id='NoSuch-v0'"), bind=free_address(), keys=None, run_dir=run_dir, resume=False)
    assert not run_dir.exists()
    address = free_address()
    with socket.create_server((address.host, address.port)), pytest.raises(UnavailableError, match="in use"):
        run(settings_of(), bind=address, keys=None, run_dir=run_dir, resume=False)
    assert not run_dir.exists()
    with pytest.raises(ConfigurationError, match="holds no run"):
        run(None, bind=free_address(), keys=None, run_dir=run_dir, resume=True)
    assert not run_dir.exists()


FALLING = (
    *(*SMALL, "optimizer.kind='sgd'", "optimizer.learning_rate=0.5", "limits.window=2"),
    "checkpoint.return_to_best=true",
)


def rise(peer: Peer, folder: RunFolder) -> CheckpointPaths:
    """To version 4, the best one, which is on the disk then."""
    for version, episode_return in enumerate((0.0, 0.0, 9.0, 9.0)):
        assert peer.push(version=version, episode_return=episode_return).verdict == "applied"
    best = until(
        lambda: [one for one in folder.all_checkpoints() if one.order[0] == 4], "version 4", PATIENCE_MS / 1000
    )
    return best[0]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A learner that takes a second for a minute."""
    monkeypatch.setattr(health, "HOLD_SECONDS", 0.0)
    monkeypatch.setattr(return_to_best, "LASTING_SECONDS", 0.0)
    monkeypatch.setattr(save_schedule, "BEST_SECONDS", 0.0)


@pytest.mark.usefixtures("impatient")
def test_a_fall_is_answered_by_the_best_checkpoint_and_a_resume_keeps_the_step(
    learn: Callable[..., int], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = RunFolder(tmp_path / "run")

    def first(peer: Peer) -> None:
        peer.join()
        rise(peer, folder)
        version = 4
        while (answer := peer.push(version=version, episode_return=0.0)).version == version + 1:
            version += 1
            time.sleep(0.01)
        assert (answer.version, answer.verdict) == (version + 2, "applied")
        peer.say(Pull(version=version))
        weights, body = peer.hear(Weights)
        assert weights.version == answer.version
        expected = peer.weights - 4 * 0.5 - 0.5 * 0.5 / 2**0.5  # that of lag 1 is scaled
        np.testing.assert_allclose(np.frombuffer(body or b"", np.float32), expected, atol=1e-5)
        interrupt()

    with caplog.at_level(logging.WARNING, "learner"):
        assert learn(first, settings_of(*FALLING)) == 143
    assert "returned to the checkpoint of version 4 (mean return 9), learning rate x 0.5" in caplog.text

    def second(peer: Peer) -> None:
        peer.join()
        peer.push(version=peer.welcome.version)
        peer.say(Pull(version=peer.welcome.version))
        np.testing.assert_allclose(
            np.frombuffer(peer.hear(Weights)[1] or b"", np.float32), peer.weights - 0.5 * 0.5, atol=1e-5
        )
        interrupt()

    assert learn(second, None, resume=True) == 143


@pytest.mark.usefixtures("impatient")
def test_a_best_checkpoint_that_cannot_be_read_is_a_warning(
    learn: Callable[..., int], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def script(peer: Peer) -> None:
        peer.join()
        rise(peer, RunFolder(tmp_path / "run")).weights_file.write_bytes(b"damage")
        version = 4
        while "no return to the best checkpoint: " not in caplog.text:
            assert peer.push(version=version, episode_return=0.0).version == version + 1
            version += 1
            time.sleep(0.01)
        assert peer.push(version=version).version == version + 1
        interrupt()

    with caplog.at_level(logging.WARNING, "learner"):
        assert learn(script, settings_of(*FALLING)) == 143
    assert "weights.safetensors: checksum differs" in caplog.text
