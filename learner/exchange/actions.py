"""Actors hold only environments: the learner answers observations with actions (exchange.kind = "actions").

A message that a group sends again gets the same answer again: nothing is stepped or trained on twice. A group that is
not known here, for example after a restart, is told to join again, and begins anew.
"""

import math

from common.errors import CodecError
from common.wire.bodies.observations import group_sizes
from common.wire.frames import Buffer
from common.wire.messages import Act, Contribution, Hello, Observe
from learner.effects import Effect, Log, Send, refuse
from learner.exchange.base import NOBODY, Exchange
from learner.exchange.header_check import check_episode, check_frames, most_frames_per_step
from learner.exchange.inference_queue import Group, InferenceQueue
from learner.exchange.policy_server import PolicyServer
from learner.exclusion import exclude
from learner.parameters.batch_trainer import BatchTrainer
from learner.parameters.publisher import Occasion
from learner.peer import Peer
from learner.run import Run

LOOK_SECONDS = 0.0005
"""Seconds between two looks whether a GPU has finished its step."""


class ActionExchange(Exchange):
    def __init__(self, run: Run, trainer: BatchTrainer, server: PolicyServer) -> None:
        """`server` chooses the actions, and gives complete rollouts to `trainer`."""
        super().__init__(run, server.max_bytes)
        exchange = self._settings.exchange
        self._trainer = trainer
        self._server = server
        self._frames_per_step = most_frames_per_step(self._settings.environment)
        self._sizes = group_sizes(self._settings.environment.num_envs, exchange.groups)
        self._queue = InferenceQueue(self._sizes, exchange.batch, exchange.batch_wait_ms / 1e3)
        self._completed: list[Peer] = []
        """The actor of each rollout that waits for the next optimizer step."""
        self._learning: list[Peer] = []
        """The actor of each rollout in the step under way; empty: no step is."""
        self._frames = 0
        """Frames of the run when that step was begun."""
        self._look_at = math.inf
        """When to look whether that step is over."""

    @property
    def weights_go_out(self) -> Occasion:
        return "never"

    @property
    def deadline(self) -> float:
        return min(self._queue.deadline, self._look_at)

    @property
    def is_ready(self) -> bool:
        if self._learning:
            return self._trainer.is_over
        return self._step_rule.is_full([peer.incarnation for peer in self._completed], self._run.peers.incarnations)

    def choose_codec(self, hello: Hello) -> str:  # noqa: ARG002
        return ""  # observations and actions are sent as they are

    def handle(
        self, now: float, routing_id: bytes, peer: Peer, message: Contribution | Observe, body: Buffer | None
    ) -> list[Effect]:
        if not isinstance(message, Observe):
            return [refuse(routing_id, "role", "this run takes observations: the learner acts")]
        if (message.run, message.epoch) != (self._run.spec.run, self._run.spec.epoch):
            return [refuse(routing_id, "unknown", f"this is run {self._run.spec.run}, epoch {self._run.spec.epoch}")]
        key = (routing_id, message.group)
        group = self._queue.get(key)
        if group is not None and message.step <= group.step:
            return self._again(routing_id, message, group)
        if not message.begins and (group is None or message.step != group.step + 1):
            return [refuse(routing_id, "unknown", f"group {message.group} is not known here: join again")]
        try:
            self._check(message)
            if body is None:
                raise CodecError("no body")
            if group is None:
                self._run.peers.took_part(peer)
                buffer = self._server.open(self._run.spec.actor_seed(peer.seed), message.group, message.step)
                group = Group(buffer, message.step, now)
            elif group.answer is None and not message.begins:
                raise CodecError(f"step {message.step} ahead of the actions for it")
            peer.claimed_steps += message.steps
            acted = self._server.observe(group.buffer, body, begins=message.begins, source=peer.hello.name)
        except CodecError as error:
            return self._unusable(now, routing_id, peer, str(error))
        self._run.stats.received(now, memoryview(body).nbytes)
        self._run.stats.played(now, peer, message)
        if acted is not None:
            self._run.stats.lagged(now, peer, self._run.stats.counters.version - acted)
            self._completed.append(peer)
        self._queue.enqueue(key, group, message.step, now)
        return self._pass(now) if self._queue.is_full else []

    def answer(self, now: float) -> list[Effect]:
        return self._pass(now) if now >= self._queue.deadline else []

    def step(self, now: float, *, heard_all: bool = True, whole: bool = True) -> list[Effect]:  # noqa: ARG002
        """Finish the step under way if it is over, and begin the next; a GPU learns while the learner keeps acting."""
        effects = self._learnt()
        if self._completed and not self._learning:
            self._learning, self._completed = self._completed, []
            self._frames = self._run.stats.counters.frames
            self._trainer.begin(scale=1.0, frames=self._frames)
            effects += self._learnt()
        self._look_at = now + LOOK_SECONDS if self._learning else math.inf
        return effects

    def _learnt(self) -> list[Effect]:
        """Take in the result of the step under way, if it is over."""
        if not self._learning or not self._trainer.is_over:
            return []
        learning, self._learning = self._learning, []
        result = self._trainer.finish()
        self._trainer.weights.end_version()
        self._server.renew()
        self._run.stats.stepped(result.statistics, self._frames)
        effects: list[Effect] = []
        for number, peer in enumerate(learning):
            if number not in result.left_out:
                self._run.stats.applied(peer, {})
            elif result.to_blame:
                text = f"a rollout of {peer.hello.name} was left out: {result.left_out[number]}"
                self._run.stats.refused(peer, text)
                effects.append(Log("warning", text, key=f"bad {peer.hello.name}"))
        if not result.to_blame:
            self._run.stats.not_finite()
            effects.append(Log("warning", f"{len(learning)} rollouts together: {NOBODY}", key="step"))
        return effects

    def named(self) -> list[str]:
        return self._trainer.troubles

    def weights_restored(self) -> None:
        self._server.renew()

    def left(self, routing_id: bytes) -> None:
        self._queue.left(routing_id)

    def _pass(self, now: float) -> list[Effect]:
        waiting = self._queue.dequeue_all()
        if not waiting:
            return []
        buffers = [group.buffer for group in waiting.values()]
        bodies = self._server.act(buffers, self._run.stats.counters.version)
        effects: list[Effect] = []
        for ((routing_id, number), group), body in zip(waiting.items(), bodies, strict=True):
            group.answer = body
            self._run.stats.sent_actions(now, len(body))
            effects.append(Send(routing_id, Act(group=number, step=group.step), body))
        return effects

    def _again(self, routing_id: bytes, message: Observe, group: Group) -> list[Effect]:
        self._run.stats.duplicate()
        if message.step < group.step or group.answer is None:
            return []
        return [Send(routing_id, Act(group=message.group, step=message.step), group.answer)]

    def _check(self, message: Observe) -> None:
        """Raise CodecError for figures that are impossible under the run's settings; they are not counted."""
        if message.group >= len(self._sizes):
            raise CodecError(f"group {message.group}, there are {len(self._sizes)}")
        most = 0 if message.begins else self._sizes[message.group]
        if message.steps > most:
            raise CodecError(f"{message.steps} steps, the group takes at most {most}")
        if len(message.episodes) > message.steps:
            raise CodecError(f"{message.steps} steps that end {len(message.episodes)} episodes")
        check_frames(message.emulator_frames, message.steps, self._frames_per_step)
        for episode in message.episodes:
            check_episode(episode, self._run.spec.longest_episode)

    def _unusable(self, now: float, routing_id: bytes, peer: Peer, why: str) -> list[Effect]:
        """Quarantine the actor at once: the two ends differ, so its next messages would be as bad."""
        self._run.stats.refused(peer, f"{peer.hello.name} sent observations that cannot be used: {why}")
        reason = f"its observations cannot be used: {why}; are environment and a3cd the same on both hosts?"
        return exclude(self._run.peers, self._run.stats.warn, now, routing_id, peer, reason)
