"""Checks the header of a contribution: it may only tell what an actor of this run can have played."""

import math

from common.errors import CodecError
from common.rl.episode import Episode
from common.settings.exchanges import most_in_message, most_in_sum
from common.settings.sections import Environment
from common.wire.messages import Contribution, Gradient
from learner.meters import LARGEST_FIGURE
from learner.peer import Peer
from learner.run import RunSpec

MOST_SKIPPED = 4
"""Most emulator frames of one agent step if environment.frame_skip leaves the number to the environment."""
LONGEST_SECONDS = 1e9
"""Longest duration of an episode."""


class HeaderCheck:
    def __init__(self, spec: RunSpec, message: type[Contribution], plural: str) -> None:
        """`message`: the only kind of contribution that the run takes; `plural`: its name in messages to people."""
        settings = spec.settings
        self._model = spec.model
        self._message = message
        self._plural = plural
        self._most = {"actor": most_in_message(settings), "relay": most_in_sum(settings)}
        """Most rollouts in one contribution, by the sender's role."""
        self._rollout_steps = settings.algorithm.rollout_length * settings.environment.num_envs
        self._whole_episodes = settings.algorithm.whole_episodes
        self._frames_per_step = most_frames_per_step(settings.environment)
        self._longest = spec.longest_episode

    def check(self, peer: Peer, header: Contribution, version: int) -> None:
        """Raise CodecError for a header that no actor of this run sends; `version`: that of the newest weights.

        The steps of a good header are counted as claimed even if the contribution is not used: later episodes may
        consist of them.
        """
        if not isinstance(header, self._message):
            raise CodecError(f"this run takes {self._plural}")
        if header.model != self._model:
            raise CodecError(f"of model {header.model!r}, this run trains {self._model!r}")
        if header.codec != peer.codec:
            raise CodecError(f"packed as {header.codec!r}, agreed was {peer.codec!r}")
        if header.version > version:
            raise CodecError(f"of version {header.version}, the newest is {version}")
        self._check_sum(peer, header)
        self._check_steps(header)
        peer.claimed_steps += header.steps
        for episode in header.episodes:
            check_episode(episode, self._longest)

    def _check_sum(self, peer: Peer, header: Contribution) -> None:
        """Raise CodecError for too many rollouts, or a sum from an actor: only relays send sums, which name players."""
        role = peer.hello.role
        if header.count > (most := self._most[role]):
            raise CodecError(f"of {header.count} rollouts, at most {most} are added up")
        summed, players = (header.summed, len(header.players)) if isinstance(header, Gradient) else (False, 0)
        if summed != (role == "relay"):
            raise CodecError("the sum of others' gradients, of an actor" if summed else "no sum, of a relay")
        if players != (len(header.episodes) if summed else 0):
            raise CodecError(f"with {len(header.episodes)} episodes of {players} players")

    def _check_steps(self, header: Contribution) -> None:
        most = header.count * self._rollout_steps
        if self._whole_episodes:
            most = header.count * self._longest if self._longest else header.steps
        if header.steps > most:
            raise CodecError(f"of {header.steps} steps, {header.count} rollouts have at most {most}")
        check_frames(header.emulator_frames, header.steps, self._frames_per_step)
        if len(header.episodes) > header.steps:
            raise CodecError(f"of {header.steps} steps that end {len(header.episodes)} episodes")


def most_frames_per_step(environment: Environment) -> int:
    """Return the most emulator frames of one agent step."""
    return environment.frame_skip or MOST_SKIPPED


def check_frames(emulator_frames: int, steps: int, most: int) -> None:
    """Raise CodecError for more than `most` emulator frames in a step."""
    if emulator_frames > steps * most:
        raise CodecError(f"of {emulator_frames} frames, {steps} steps have at most {most} each")


def check_episode(episode: Episode, longest: int) -> None:
    """Raise CodecError for figures that no episode has; `longest`: most steps of an episode, 0: not known."""
    if not abs(episode.episode_return) <= LARGEST_FIGURE:
        raise CodecError(f"with an episode of return {episode.episode_return:g}")
    if not (math.isfinite(episode.seconds) and 0 <= episode.seconds <= LONGEST_SECONDS):
        raise CodecError(f"with an episode of {episode.seconds:g} seconds")
    if episode.length < 1:
        raise CodecError(f"with an episode of {episode.length} steps")
    if longest and episode.length > longest:
        raise CodecError(
            f"with an episode of {episode.length} steps, the environment ends them after {longest}: "
            "is it the same on both hosts?"
        )
