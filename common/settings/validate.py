"""Checks of settings against each other, and of values that the wire cannot carry."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

import msgspec

from common.errors import ConfigurationError
from common.settings.codec_names import COARSE
from common.settings.exchanges import EXCHANGES, MAX_LIST_ITEMS, possible
from common.settings.sections import Algorithm, Exchange, Scaling, Settings

INT64 = 2**63


def check(settings: Settings, source: str = "settings") -> None:
    """Raise ConfigurationError for the first problem; its text begins with `source`."""
    for problem in _problems(settings):
        raise ConfigurationError(f"{source}: {problem}")


def _problems(settings: Settings) -> Iterator[str]:
    yield from _unusable_numbers("", msgspec.to_builtins(settings))
    if settings.algorithm.whole_episodes and settings.environment.num_envs != 1:
        yield (
            f"algorithm.whole_episodes = true needs environment.num_envs = 1, not {settings.environment.num_envs}: "
            "a gradient is then one episode of one environment"
        )
    if settings.optimizer.anneal == "linear" and settings.limits.frames == 0:
        yield 'optimizer.anneal = "linear" needs limits.frames above 0: the step size reaches 0 there'
    if ":" in settings.network.kind and not settings.network.shared:
        yield f"network.shared = false: leave it out, {settings.network.kind} settles itself what is shared"
    if settings.network.lstm and ":" in settings.network.kind:
        yield f"network.lstm = {settings.network.lstm}: leave it out, {settings.network.kind} has no state to carry"
    elif settings.network.lstm and not settings.network.shared:
        yield f"network.lstm = {settings.network.lstm} needs network.shared = true: policy and value share the LSTM"
    yield from _values(settings.algorithm)
    yield from _episodes(settings)
    yield from _exchange(settings.exchange)
    yield from _staleness(settings)
    yield from _algorithm(settings)
    if "trajectories" in _kinds(settings):
        yield from _trajectories(settings)
    if settings.exchange.kind == "actions":
        yield from _actions(settings)
    if settings.scaling.policy != "fixed":
        yield from _scaling(settings.scaling)


def _kinds(settings: Settings) -> set[str]:
    """The kinds that the exchange may have, once network and device are known."""
    exchange, algorithm = settings.exchange, settings.algorithm
    return possible(exchange.kind, algorithm.kind, settings.network.kind, settings.optimizer.device)


def _unusable_numbers(path: str, value: object) -> Iterator[str]:
    """Infinities, which no setting allows, and integers that msgpack cannot carry to the actors."""
    match value:
        case dict():
            for key, inner in value.items():
                yield from _unusable_numbers(f"{path}.{key}" if path else key, inner)
        case list():
            for inner in value:
                yield from _unusable_numbers(path, inner)
        case float() if not math.isfinite(value):
            yield f"{path} = {value}: must be a finite number"
        case int() if not -INT64 <= value < INT64:
            yield f"{path}: must be a whole number of at most 64 bits"


def _values(algorithm: Algorithm) -> Iterator[str]:
    finals, probabilities = algorithm.epsilon_finals, algorithm.epsilon_probabilities
    if len(finals) != len(probabilities):
        yield (
            "algorithm.epsilon_finals and algorithm.epsilon_probabilities must be equally long, not "
            f"{len(finals)} and {len(probabilities)}"
        )
    if not math.isclose(sum(probabilities), 1, abs_tol=1e-6):
        yield f"algorithm.epsilon_probabilities = {probabilities} must add up to 1, not {sum(probabilities):g}"
    if algorithm.kind == "one-step-sarsa" and algorithm.rollout_length < 2 and not algorithm.whole_episodes:
        yield (
            'algorithm.kind = "one-step-sarsa" needs algorithm.rollout_length of at least 2, not '
            f"{algorithm.rollout_length}: the target of a step needs the next action"
        )


def _episodes(settings: Settings) -> Iterator[str]:
    num_envs = settings.environment.num_envs
    rollout_length = settings.algorithm.rollout_length
    accumulate = settings.exchange.accumulate
    # An episode takes at least one step, and the environment's reset another.
    most = num_envs * math.ceil(rollout_length / 2) * accumulate
    if most > MAX_LIST_ITEMS and not settings.algorithm.whole_episodes:
        yield (
            f"environment.num_envs = {num_envs}, algorithm.rollout_length = {rollout_length} and "
            f"exchange.accumulate = {accumulate}: {most:,} episodes could end in one gradient, its message holds at "
            f"most {MAX_LIST_ITEMS:,}; lower one of these"
        )


def _exchange(exchange: Exchange) -> Iterator[str]:
    if exchange.expiry_seconds <= exchange.heartbeat_seconds:
        yield (
            f"exchange.expiry_seconds = {exchange.expiry_seconds} must be above exchange.heartbeat_seconds = "
            f"{exchange.heartbeat_seconds}, or every peer expires between two heartbeats"
        )
    if exchange.codec in COARSE and exchange.error_feedback is False:
        yield (
            f'exchange.codec = "{exchange.codec}" needs exchange.error_feedback = "auto" or true, not false: '
            "most of every gradient would be lost for good"
        )
    if exchange.codec == "none" and exchange.error_feedback is True:
        yield 'exchange.error_feedback = true needs a codec that loses something, not exchange.codec = "none"'
    if exchange.codec in COARSE and exchange.credit == 0:
        yield (
            f'exchange.codec = "{exchange.codec}" needs exchange.credit of at least 1: without, gradients are not kept '
            "until they are answered, and error feedback cannot know its residual"
        )


def _algorithm(settings: Settings) -> Iterator[str]:
    algorithm, given = settings.algorithm, settings.exchange.kind
    allowed = EXCHANGES[algorithm.kind]
    if given == "actions" and given not in allowed:
        others = " or ".join(kind for kind, exchanges in EXCHANGES.items() if given in exchanges)
        yield f'exchange.kind = "actions" does not go with algorithm.kind = "{algorithm.kind}", only with {others}'
    elif given not in ("auto", *allowed):
        yield (
            f'exchange.kind = "{given}" does not go with algorithm.kind = "{algorithm.kind}", which needs '
            f'"{allowed[0]}"; to send gradients of this loss, use algorithm.kind = "a3c"'
        )
    if algorithm.kind == "vtrace" and algorithm.correction == "none":
        yield 'algorithm.correction = "none" leaves nothing of algorithm.kind = "vtrace"; use "a2c" for that'
    if algorithm.kind == "ppo" and given == "gradients":
        if settings.staleness.policy != "synchronous":
            yield (
                'exchange.kind = "gradients" with algorithm.kind = "ppo" needs staleness.policy = "synchronous": '
                "all actors take each epoch on the weights after the epoch before"
            )
        if not algorithm.refresh:
            yield 'exchange.kind = "gradients" with algorithm.kind = "ppo" needs algorithm.refresh = true'
        if algorithm.whole_episodes:
            yield 'algorithm.whole_episodes = true does not go with algorithm.kind = "ppo", only with "a3c"'


def _trajectories(settings: Settings) -> Iterator[str]:
    algorithm, exchange = settings.algorithm, settings.exchange
    why = 'exchange.kind = "trajectories"'
    if exchange.kind == "auto" and EXCHANGES[algorithm.kind][0] == "gradients":
        why += ' (from "auto" on a GPU; "gradients" is possible too)'
    if algorithm.whole_episodes:
        yield f"{why} sends rollouts of one length: it needs algorithm.whole_episodes = false"
    if exchange.codec not in ("auto", "none"):
        yield f'{why} packs nothing with loss: leave exchange.codec = "{exchange.codec}" out (or "none")'
    if exchange.error_feedback is True:
        yield f"{why} packs nothing with loss: leave exchange.error_feedback = true out"
    if settings.staleness.policy == "compensate":
        yield f'{why}: staleness.policy = "compensate" corrects gradients of actors; use "scale" or "synchronous"'


def _actions(settings: Settings) -> Iterator[str]:
    algorithm, exchange = settings.algorithm, settings.exchange
    needs = 'exchange.kind = "actions" needs'
    if algorithm.whole_episodes:
        yield (
            f"{needs} algorithm.whole_episodes = false: the learner trains on algorithm.rollout_length steps of a group"
        )
    if settings.environment.num_envs < exchange.groups:
        yield (
            f"{needs} environment.num_envs of at least exchange.groups = {exchange.groups}, not "
            f"{settings.environment.num_envs}: each group has at least one"
        )
    if settings.staleness.policy != "scale":
        yield (
            f'{needs} staleness.policy = "scale", not "{settings.staleness.policy}": the learner itself acts, with its '
            "newest weights"
        )


def _staleness(settings: Settings) -> Iterator[str]:
    staleness, exchange = settings.staleness, settings.exchange
    if staleness.policy == "compensate":
        why = 'staleness.policy = "compensate" must know the weights of each gradient'
        if settings.algorithm.refresh:
            yield f"{why}: it needs algorithm.refresh = false"
        if exchange.accumulate != 1:
            yield f"{why}: it needs exchange.accumulate = 1, not {exchange.accumulate}"
    if staleness.policy == "synchronous":
        if exchange.weights == "delta":
            yield 'exchange.weights = "delta" is for broadcasts; staleness.policy = "synchronous" has none, use "auto"'
        if exchange.credit != 1:
            yield (
                f'staleness.policy = "synchronous" needs exchange.credit = 1, not {exchange.credit}: '
                "an actor waits for the answer to each gradient"
            )
        if staleness.drop_above is not None:
            yield (
                f'staleness.drop_above = {staleness.drop_above} means nothing with staleness.policy = "synchronous", '
                "which takes gradients of the newest version only; leave it out"
            )


def _scaling(scaling: Scaling) -> Iterator[str]:
    if scaling.maximum < scaling.minimum:
        yield f"scaling.maximum = {scaling.maximum} must be at least scaling.minimum = {scaling.minimum}"
    if scaling.policy == "episode-duration" and scaling.form == "steps":
        thresholds, additions = scaling.thresholds_seconds, scaling.additions
        if not thresholds or len(thresholds) != len(additions):
            yield (
                "scaling.thresholds_seconds and scaling.additions must be equally long, at least one each, not "
                f"{len(thresholds)} and {len(additions)}"
            )
        for name, values in (("thresholds_seconds", thresholds), ("additions", additions)):
            if any(after <= before for before, after in pairwise(values)):
                yield f"scaling.{name} = {values} must rise"
