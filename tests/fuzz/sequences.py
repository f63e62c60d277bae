"""The cores under sequences of valid messages: absurd figures, any order, any time, several peers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec

from actor.effects import Leave, Prepare
from actor.evaluator.core import EvaluatorCore
from actor.outbox import Send
from actor.worker_core import WorkerCore
from common.errors import A3cdError
from common.rl.episode import Episode
from common.wire import messages
from common.wire.frames import Buffer, pack, unpack
from common.wire.messages import AnyMessage
from common.wire.protocol import LEARNER, RULES
from deploy.backends.background_loop import Report
from deploy.backends.base import Ended, Observation
from deploy.launcher.core import LauncherCore
from learner.effects import Finish, SaveCheckpoint
from relay.core import RelayCore
from tests.fuzz.choices import Choices
from tests.helpers.link import ActorShell
from tests.helpers.run import BAD, MODEL, hello_of, learner_of, welcome_of

BY_PEERS = tuple(kind for kind, rule in RULES.items() if rule.senders != LEARNER)
BY_LEARNER = tuple(kind for kind, rule in RULES.items() if set(LEARNER) & set(rule.senders))
KNOWN: dict[str, tuple[Any, ...]] = {
    "run": ("a-run", "another"),
    "model": (MODEL, "another"),
    "codec": ("none", "int8", ""),
    "name": ("a", "b", "c"),
    "incarnation": ("1", "2"),
    "role": ("actor", "launcher", "observer", "evaluator", "relay", "operator"),
    "parameters": (2,),
    "counted": (0,),
    "host": ("lab", "gpu-box"),
    "launcher": ("", "l"),
    "protocol": (messages.PROTOCOL,),
    "credit": (1, 3),
    "codecs": (["none"], [], ["int8", "none"]),
    "minimum": (0, 2, 8),
    "maximum": (0, 2, 8),
    "verdict": ("applied", "stale", "refused", "duplicate"),
    "weights_format": ("fp32",),
}
"""Values by which a message gets past the first checks; other fields take any that their type has."""
MOST_EFFECTS = 2000


def message(choices: Choices, kinds: tuple[Any, ...]) -> AnyMessage | None:
    """A message as it arrives; None for figures that no message can have."""
    kind = choices.one_of(kinds)
    fields = {}
    for field in msgspec.structs.fields(kind):
        if field.required or field.name == "credit" or choices.byte() % 2:
            fields[field.name] = _value(choices, field.name, field.type)
    try:
        return unpack(pack(kind(**fields)))
    except (A3cdError, OverflowError, ValueError, TypeError):
        return None


def _value(choices: Choices, name: str, kind: Any) -> Any:
    if name in KNOWN and (name == "credit" or choices.byte() % 8):
        return choices.one_of(KNOWN[name])
    if name == "episodes":
        return [Episode(choices.real(), choices.number(), choices.real()) for _ in range(choices.byte() % 4)]
    if name == "moments":
        return [(choices.number(), [choices.real()], [choices.real()]) for _ in range(choices.byte() % 3)]
    if name == "statistics":
        return {choices.one_of(("policy_loss", "entropy", "x")): choices.real()}
    plain = str(kind)
    if "float" in plain:
        return choices.real()
    if "bool" in plain:
        return choices.one_of((False, True))
    if "int" in plain:
        return choices.number()
    if "dict" in plain:
        return {}
    if "list" in plain:
        return []
    return choices.take(choices.byte() % 16).hex()


SETTINGS = (
    (),
    ("exchange.credit=0",),
    ("staleness.policy=synchronous",),
    ("limits.frames=1000", "limits.until_return=1"),
    ("scaling.policy=load", "scaling.maximum=8"),
    ("scaling.policy=episode-duration", "scaling.maximum=8"),
    ("algorithm.kind=vtrace", "exchange.kind=trajectories"),
    ("evaluation.episodes=1", "evaluation.every_seconds=1", "limits.until_return_of=evaluation"),
)


def learner_sequence(data: bytes) -> None:
    choices = Choices(data)
    core, noted = learner_of(*choices.one_of(SETTINGS))
    now, steps = 0.0, 0
    while choices and steps < 200:
        steps += 1
        now += choices.one_of((0.0, 0.001, 0.1, 1.0, 11.0, 40.0))
        sent = message(choices, BY_PEERS)
        effects: list[Any] = []
        if sent is not None:
            body = choices.one_of((None, b"1", b"", BAD))
            peer = choices.one_of((b"1", b"2", b"3"))
            address = "127.0.0.1" if peer == b"3" else "10.0.0.7"  # only the first may be an operator's
            effects += core.handle(now, peer, sent, body, address=address)
        effects += core.answer(now) + core.flush(now) + core.tick(now)
        for effect in effects:
            if isinstance(effect, SaveCheckpoint):
                core.saved(now, effect.version, choices.one_of(("", "disk full")))
        assert len(effects) < MOST_EFFECTS
        assert core.deadline > -math.inf
        if any(isinstance(effect, Finish) for effect in effects):
            return
    stats = core.run.stats
    assert stats.counters.frames >= 0
    assert not math.isnan(stats.window.mean_return or 0.0)
    assert noted.weights.finite
    msgspec.json.encode(core.run.status(now))


class _AnyWeights(ActorShell):
    """Takes weights of any content."""

    def load(self, version: int, body: Buffer, *, delta: bool = False) -> bool:
        return not delta

    def advance(self, until: float) -> bool:
        self.sum.append(1)
        return True


def actor_sequence(data: bytes) -> None:
    shell = _AnyWeights("a", 0.0)
    _worker_sequence(data, shell.core, shell, lambda: shell.core.player is not None)


class _AnyBody:
    """A player that evaluates at once whatever it is given."""

    episodes = (Episode(1.0, 1, 0.0),)

    def load(self, body: Buffer) -> None: ...

    def begin(self) -> None: ...

    def advance(self, until: float) -> bool:
        return True


def evaluator_sequence(data: bytes) -> None:
    core = EvaluatorCore(hello_of("e", "evaluator"), 0.0)
    _worker_sequence(data, core, _AnyBody(), lambda: core.playing)


def _worker_sequence(data: bytes, core: WorkerCore, player: Any, may_play: Callable[[], bool]) -> None:
    choices, now = Choices(data), 0.0
    for _ in range(200):
        if not choices:
            return
        now += choices.one_of((0.0, 0.01, 1.0, 11.0, 40.0))
        sent = message(choices, BY_LEARNER)
        try:
            effects: list[Any] = []
            if sent is not None:
                effects += core.handle(now, sent, choices.one_of((None, b"", bytes(8))))
            if any(isinstance(effect, Prepare) for effect in effects):
                core.player = player
            if may_play() and choices.byte() % 2:
                player.advance(now)
                effects += core.advanced(now)
            effects += core.tick(now)
        except A3cdError:
            return
        assert len(effects) < MOST_EFFECTS
        if any(isinstance(effect, Leave) for effect in effects):
            return


def relay_sequence(data: bytes) -> None:
    """Between a site and a learner that say anything; only the learner's word ends it, and what it says is read."""
    choices, now = Choices(data), 0.0
    core = RelayCore(hello_of("r", "relay"), now, learner="tcp://gpu-box:5555", weights_port=6001)
    if choices.byte() % 8:
        core.heard(now, welcome_of(parameters=2, settings={"exchange": {"kind": "gradients"}}), bytes(8))
    for _ in range(200):
        if not choices:
            return
        now += choices.one_of((0.0, 0.01, 1.0, 11.0, 40.0))
        effects: list[Any] = []
        if choices.byte() % 4:
            peer, body = choices.one_of((b"1", b"2", b"3")), choices.one_of((None, b"", bytes(8), b"\xff" * 8))
            if (sent := message(choices, BY_PEERS)) is not None:
                effects += core.handle(now, peer, sent, body, address="10.0.0.7")
        elif (said := message(choices, BY_LEARNER)) is not None:
            try:
                effects += core.heard(now, said, choices.one_of((None, b"", bytes(8))))
            except A3cdError:
                return
        effects += core.tick(now)
        assert len(effects) < MOST_EFFECTS
        for effect in effects:
            if isinstance(effect, Send):
                assert unpack(pack(effect.message), by_learner=True) == effect.message


def launcher_sequence(data: bytes) -> None:
    choices = Choices(data)
    core, now = LauncherCore([3, 2], ["one", "two"]), 0.0
    for _ in range(200):
        if not choices:
            return
        now += choices.one_of((0.0, 0.5, 5.0, 60.0, 700.0))
        sent = message(choices, BY_LEARNER)
        if sent is not None:
            core.handle(now, sent)
        for place in sorted(core.due(now)):
            alive = frozenset(number for number in range(6) if choices.byte() % 2)
            seen = choices.one_of((Observation(alive, frozenset()), None))
            ended = tuple(Ended(choices.byte() % 6, choices.one_of((0, 1, 75, 78, 143)), "") for _ in range(2))
            core.observe(now, place, Report(seen, ended, problem="" if seen else "lost"))
        report = core.tick(now)
        assert report is None or report.slots <= 5
        core.finished(now)
