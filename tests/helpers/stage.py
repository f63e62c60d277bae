"""A training on this machine with fakes in place of the processes of learner, launcher and evaluator."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Self

import msgspec
import pytest

from common.host.addresses import Address
from common.host.security.access import LearnerEndpoint
from common.run.folder import RunFolder, RunRecord
from common.run.status import RunStatus, summary
from common.wire import sockets
from deploy.children import a3cd
from deploy.cli import observer, preflight, supervising
from deploy.cli.request import TrainRequest, request


class FakeChild:
    """A fake process, which runs until it is told to stop, and then ends with `after_stop`."""

    def __init__(self, arguments: tuple[str, ...]) -> None:
        self.arguments = arguments
        self.exit_code: int | None = None
        self.asked = False
        self.when_asked: Callable[[], object] = lambda: None
        self.after_stop = 143

    def terminate(self) -> None:
        self.asked = True
        self.when_asked()

    def wait(self, seconds: float) -> None:
        if self.exit_code is None:
            self.exit_code = self.after_stop

    def option(self, name: str) -> str:
        return self.arguments[self.arguments.index(name) + 1]


class Stage:
    """The fakes of a training; each look at the learner calls the next of `looks`, which may return a status."""

    def __init__(self) -> None:
        self.children: list[FakeChild] = []
        self.settings: IO[str]
        """The settings that the learner reads; nothing: it must not begin."""
        self.looks: list[Callable[[], RunStatus | None]] = []
        self.address: Address
        self.learner_says: Callable[[str], None]
        self.launcher_says: Callable[[str], None]
        self.when_asked: Callable[[], object] = lambda: None
        self.launcher_starts: Callable[[], object] = lambda: None
        self.handed: list[int] = []
        """Ports that the learner inherited."""

    @property
    def learner(self) -> FakeChild:
        return self.children[0]

    @property
    def launcher(self) -> FakeChild:
        return self.children[1]


@contextlib.contextmanager
def staged(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """Replaces the processes, and the observer of the learner, by fakes; no curve is drawn."""
    one = Stage()
    opened = contextlib.ExitStack()

    class Company:
        def __enter__(self) -> Self:
            return self

        def __exit__(self, kind: object, *_: object) -> None:
            waited = [child for child in one.children if child.arguments[0] != "evaluator"]
            assert kind or all(child.exit_code is not None for child in waited), "nobody waited for"

        def start(
            self, command: list[str], say: Callable[[str], None], *, stdout: bool, keep_open: Sequence[int]
        ) -> FakeChild:
            assert not stdout, "a result is the only output"
            assert command[:1] + command[-1:] == [*a3cd(), "--lifeline"]
            say("a line")
            arguments = tuple(command[1:-1])
            one.children.append(FakeChild(arguments))
            one.children[-1].when_asked = lambda: one.when_asked()
            if arguments[0] == "learner":
                one.learner_says = say
                *listeners, source = map(os.dup, keep_open)
                one.settings = opened.enter_context(os.fdopen(source, encoding="utf-8"))
                handed = sockets.inherit(",".join(map(str, listeners)))
                one.handed = [listener.getsockname()[1] for listener in handed]
                for listener in handed:
                    listener.close()
                assert arguments[-2:] == ("--settings", str(keep_open[2]))
            else:
                one.launcher_says = say
                one.launcher_starts()
            return one.children[-1]

    class Window:
        def __init__(self, access: LearnerEndpoint) -> None:
            one.address, self.ended = access.address, None

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None: ...

        def next(self, seconds: float) -> RunStatus | None:
            return one.looks.pop(0)()

    monkeypatch.setattr(supervising, "Children", Company)
    monkeypatch.setattr(supervising, "_draw", lambda _: None)
    monkeypatch.setattr(preflight, "check", lambda *_: None)
    monkeypatch.setattr(observer, "Observer", Window)
    with opened:
        yield one


def planned(env: str = "CartPole-v1", **given: Any) -> TrainRequest:
    """Returns the request of `a3cd train ENV` with these options."""
    nothing = dict.fromkeys(("algorithm", "network", "seed", "frames", "episodes", "seconds", "until_return"))
    return request(env, **{**nothing, **given})


def ends(stage: Stage, code: int, written: RunStatus | None = None) -> Callable[[], None]:
    """Returns a function that ends the learner with `code`, after it has written its summary."""

    def end() -> None:
        stage.learner.exit_code = code
        if written is not None:
            write_summary(Path(stage.learner.option("--run-dir")), written)

    return end


def write_summary(run_dir: Path, status: RunStatus) -> None:
    """Writes the summary into a run folder, which is made if need be."""
    folder = RunFolder(run_dir)
    folder.path.mkdir(exist_ok=True)
    if not folder.holds_run():
        record = RunRecord(run=status.run, created="2026-01-01", epoch=status.epoch, a3cd="0.2.0")
        folder.run_file.write_bytes(msgspec.json.encode(record))
    folder.summary_file.write_bytes(msgspec.json.encode(summary(status)))
