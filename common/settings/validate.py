"""Checks of settings against each other, and of values that the wire cannot carry."""

import math
from collections.abc import Iterator
from itertools import pairwise

import msgspec

from common.errors import ConfigurationError
from common.settings.codec_names import COARSE
from common.settings.exchanges import EXCHANGES, MAX_LIST_ITEMS, most_in_message, possible, staleness_policy
from common.settings.sections import Environment, Exchange, Network, Scaling, Settings

INT64 = 2**63


def check(settings: Settings, source: str = "settings") -> None:
    """Raise ConfigurationError for the first problem; its text begins with `source`."""
    for problem in _problems(settings):
        raise ConfigurationError(f"{source}: {problem}")


def _problems(settings: Settings) -> Iterator[str]:
    yield from _unusable_numbers("", msgspec.to_builtins(settings))
    yield from _options(settings.environment)
    yield from _wrappers(settings.environment)
    yield from _masks(settings.environment)
    yield from _network(settings.network)
    yield from _algorithm(settings)
    yield from _episodes(settings)
    if settings.reproducible:
        yield from _reproducible(settings)
    yield from _exchange(settings.exchange)
    yield from _staleness(settings)
    exchange = settings.exchange
    if "trajectories" in possible(settings):
        yield from _trajectories(settings)
    if exchange.kind == "actions":
        yield from _actions(settings)
    if exchange.robust != "none":
        yield from _robust(settings)
    if settings.checkpoint.return_to_best:
        yield from _return_to_best(settings)
    if settings.limits.until_return_of == "evaluation" and not settings.evaluation.episodes:
        yield 'limits.until_return_of = "evaluation" needs evaluation.episodes above 0: else nothing is evaluated'
    if settings.scaling.policy != "fixed":
        yield from _scaling(settings.scaling)


def _unusable_numbers(path: str, value: object) -> Iterator[str]:
    """Yield problems with infinities, which no setting allows, and with integers that msgpack cannot carry."""
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


def _options(environment: Environment) -> Iterator[str]:
    if "max_episode_steps" in environment.options:
        yield "environment.options.max_episode_steps: this is a setting of its own, environment.max_episode_steps"


def _wrappers(environment: Environment) -> Iterator[str]:
    named = [one.rpartition(":")[2] for one in environment.wrappers]
    for name in sorted(environment.wrapper_options.keys() - named):
        given = ", ".join(named) or "none"
        yield f"environment.wrapper_options.{name}: environment.wrappers has no {name}, but {given}"


def _masks(environment: Environment) -> Iterator[str]:
    if not environment.action_masks:
        return
    asked = "environment.action_masks = true"
    if environment.frame_stack > 1:
        cure = "gymnasium.wrappers:FrameStackObservation in environment.wrappers stacks observations alone"
        yield f"{asked} does not go with environment.frame_stack = {environment.frame_stack}; {cure}"
    if environment.frame_skip > 1:
        why = "an action may be forbidden before it is repeated"
        yield f"{asked} does not go with environment.frame_skip = {environment.frame_skip}: {why}"
    if environment.observation == "frames":
        yield f'{asked} does not go with environment.observation = "frames"'


def _network(network: Network) -> Iterator[str]:
    if ":" in network.kind and not network.shared:
        yield f"network.shared = false: leave it out, {network.kind} settles itself what is shared"
    if network.lstm and ":" in network.kind:
        yield f"network.lstm = {network.lstm}: leave it out, {network.kind} has no state to carry"
    elif network.lstm and not network.shared:
        yield f"network.lstm = {network.lstm} needs network.shared = true: policy and value share the LSTM"


def _algorithm(settings: Settings) -> Iterator[str]:
    algorithm, given = settings.algorithm, settings.exchange.kind
    finals, probabilities = algorithm.epsilon_finals, algorithm.epsilon_probabilities
    named = f'algorithm.kind = "{algorithm.kind}"'
    if settings.optimizer.anneal == "linear" and settings.limits.frames == 0:
        yield 'optimizer.anneal = "linear" needs limits.frames above 0: the step size reaches 0 there'
    if len(finals) != len(probabilities):
        both = f"{len(finals)} and {len(probabilities)}"
        yield f"algorithm.epsilon_finals and algorithm.epsilon_probabilities must be equally long, not {both}"
    if not math.isclose(sum(probabilities), 1, abs_tol=1e-6):
        yield f"algorithm.epsilon_probabilities = {probabilities} must add up to 1, not {sum(probabilities):g}"
    if algorithm.kind == "one-step-sarsa" and algorithm.rollout_length < 2 and not algorithm.whole_episodes:
        yield (
            f"{named} needs algorithm.rollout_length of at least 2, not {algorithm.rollout_length}: "
            "the target of a step needs the next action"
        )
    allowed = EXCHANGES[algorithm.kind]
    if given == "actions" and given not in allowed:
        others = " or ".join(kind for kind, exchanges in EXCHANGES.items() if given in exchanges)
        yield f'exchange.kind = "actions" does not go with {named}, only with {others}'
    elif given not in ("auto", *allowed):
        cure = '; to send gradients of this loss, use algorithm.kind = "a3c"' if given == "gradients" else ""
        yield f'exchange.kind = "{given}" does not go with {named}, which needs "{allowed[0]}"{cure}'
    if algorithm.kind == "vtrace" and algorithm.correction == "none":
        yield f'algorithm.correction = "none" leaves nothing of {named}; use "a2c" for that'
    if algorithm.kind == "ppo":
        yield from _ppo(settings, named)


def _ppo(settings: Settings, named: str) -> Iterator[str]:
    algorithm, policy = settings.algorithm, staleness_policy(settings)
    if policy != "synchronous":
        yield (
            f'{named} needs staleness.policy = "synchronous", not "{policy}": a batch is what one policy played; '
            'actors that play on meanwhile go with "vtrace"'
        )
    if settings.exchange.kind != "gradients":
        return
    given = f'exchange.kind = "gradients" with {named} needs'
    if not algorithm.refresh:
        yield f"{given} algorithm.refresh = true"
    if algorithm.target_kl:
        why = "an actor that left its rollout early would play while the others learn; trajectories have it"
        yield f"{given} algorithm.target_kl = 0, not {algorithm.target_kl:g}: {why}"
    if algorithm.whole_episodes:
        yield f'algorithm.whole_episodes = true does not go with {named}, only with "a3c"'


def _episodes(settings: Settings) -> Iterator[str]:
    num_envs, rollout_length = settings.environment.num_envs, settings.algorithm.rollout_length
    rollouts = most_in_message(settings)
    # An episode takes at least one step, and its environment's reset another.
    most = num_envs * math.ceil(rollout_length / 2) * rollouts
    if settings.algorithm.whole_episodes and num_envs != 1:
        yield (
            f"algorithm.whole_episodes = true needs environment.num_envs = 1, not {num_envs}: "
            "a gradient is then one episode of one environment"
        )
    elif most > MAX_LIST_ITEMS and not settings.algorithm.whole_episodes and settings.exchange.kind != "actions":
        accumulated = f", exchange.accumulate = {rollouts}" if rollouts > 1 else ""
        yield (
            f"environment.num_envs = {num_envs}, algorithm.rollout_length = {rollout_length}{accumulated}: {most:,} "
            f"episodes could end in what one message tells, which holds at most {MAX_LIST_ITEMS:,}; lower one of these"
        )


def _exchange(exchange: Exchange) -> Iterator[str]:
    codec = f'exchange.codec = "{exchange.codec}"'
    if exchange.expiry_seconds <= exchange.heartbeat_seconds:
        yield (
            f"exchange.expiry_seconds = {exchange.expiry_seconds} must be above exchange.heartbeat_seconds = "
            f"{exchange.heartbeat_seconds}, or every peer expires between two heartbeats"
        )
    if exchange.codec == "none" and exchange.error_feedback is True:
        yield f"exchange.error_feedback = true needs a codec that loses something, not {codec}"
    if exchange.codec in COARSE and exchange.error_feedback is False:
        lost = "most of every gradient would be lost for good"
        yield f'{codec} needs exchange.error_feedback = "auto" or true, not false: {lost}'
    if exchange.codec in COARSE and exchange.credit == 0:
        yield (
            f"{codec} needs exchange.credit of at least 1: without, gradients are not kept until they are answered, "
            "and error feedback cannot know its residual"
        )


def _trajectories(settings: Settings) -> Iterator[str]:
    algorithm, exchange = settings.algorithm, settings.exchange
    why = 'exchange.kind = "trajectories"'
    if algorithm.whole_episodes:
        yield f"{why} sends rollouts of one length: it needs algorithm.whole_episodes = false"
    yield from _no_loss(exchange, f"{why} packs nothing with loss")
    if staleness_policy(settings) == "compensate":
        yield f'{why}: staleness.policy = "compensate" corrects gradients of actors; use "scale" or "synchronous"'


def _no_loss(exchange: Exchange, why: str) -> Iterator[str]:
    if exchange.codec not in ("auto", "none"):
        yield f'{why}: leave exchange.codec = "{exchange.codec}" out (or "none")'
    if exchange.error_feedback is True:
        yield f"{why}: leave exchange.error_feedback = true out"


def _robust(settings: Settings) -> Iterator[str]:
    exchange = settings.exchange
    robust = f'exchange.robust = "{exchange.robust}"'
    if possible(settings) != {"gradients"}:
        yield f'{robust} judges gradients of actors: it needs exchange.kind = "gradients"'


def _actions(settings: Settings) -> Iterator[str]:
    num_envs, groups, policy = settings.environment.num_envs, settings.exchange.groups, staleness_policy(settings)
    kind = 'exchange.kind = "actions"'
    needs = f"{kind} needs"
    yield from _no_loss(settings.exchange, f"{kind} sends no gradients")
    if settings.exchange.weights != "auto":
        yield f'{kind} sends no weights: leave exchange.weights = "{settings.exchange.weights}" out'
    if settings.algorithm.whole_episodes:
        why = "the learner trains on algorithm.rollout_length steps of a group"
        yield f"{needs} algorithm.whole_episodes = false: {why}"
    if num_envs < groups:
        why = "each group has at least one"
        yield f"{needs} environment.num_envs of at least exchange.groups = {groups}, not {num_envs}: {why}"
    if settings.record.gradients:
        yield f"{needs} record.gradients = false: the learner plays itself, and nothing comes that could be recorded"
    if policy != "scale":
        why = "the learner itself acts, with its newest weights"
        yield f'{needs} staleness.policy = "scale", not "{policy}": {why}'


def _return_to_best(settings: Settings) -> Iterator[str]:
    needs = "checkpoint.return_to_best = true needs"
    if not settings.checkpoint.best:
        yield f"{needs} checkpoint.best = true: else the best checkpoint is not kept"
    if not settings.checkpoint.every_seconds:
        yield f"{needs} checkpoint.every_seconds above 0: else nothing is saved before the end"
    if settings.record.gradients:
        yield f"{needs} record.gradients = false: weights that come from a checkpoint are no step of the record"


def _reproducible(settings: Settings) -> Iterator[str]:
    """Yield settings that let the clock, or the order of arrival, decide what is learnt."""
    needs = "reproducible = true needs"
    staleness, scaling, limits = settings.staleness, settings.scaling, settings.limits
    if settings.exchange.kind == "actions":
        why = "the learner answers whoever asks first"
        yield f'{needs} exchange.kind = "gradients" or "trajectories", not "actions": {why}'
    if staleness_policy(settings) != "synchronous":
        why = "each step takes one contribution of every actor"
        yield f'{needs} staleness.policy = "synchronous", not "{staleness.policy}": {why}'
    if staleness.share != 1:
        yield f"{needs} staleness.share = 1, not {staleness.share:g}: else the last actors are left out"
    if scaling.policy != "fixed":
        yield f'{needs} scaling.policy = "fixed", not "{scaling.policy}": actors are added by the clock'
    if not scaling.minimum:
        yield f"{needs} scaling.minimum of at least 1, not 0: that many actors take part, no more and no fewer"
    if settings.optimizer.device != "cpu":
        why = "a GPU adds up in any order"
        yield f'{needs} optimizer.device = "cpu", not "{settings.optimizer.device}": {why}'
    if limits.seconds:
        yield f"{needs} limits.seconds = 0, not {limits.seconds:g}: how far a run gets by then differs"
    if limits.until_return is not None and limits.until_return_of != "training":
        why = "evaluations come by the clock"
        yield f'{needs} limits.until_return_of = "training", not "{limits.until_return_of}": {why}'
    if settings.checkpoint.return_to_best:
        yield f"{needs} checkpoint.return_to_best = false: it waits for minutes"


def _staleness(settings: Settings) -> Iterator[str]:
    staleness, exchange = settings.staleness, settings.exchange
    chosen = staleness_policy(settings)
    policy = f'staleness.policy = "{chosen}"'
    if chosen == "compensate":
        why = f"{policy} must know the weights of each gradient"
        if settings.algorithm.refresh:
            yield f"{why}: it needs algorithm.refresh = false"
        if exchange.accumulate != 1:
            yield f"{why}: it needs exchange.accumulate = 1, not {exchange.accumulate}"
    if chosen == "synchronous":
        if exchange.weights == "delta":
            yield f'exchange.weights = "delta" is for broadcasts; {policy} has none, use "auto"'
        if exchange.credit != 1:
            waits = "an actor waits for the answer to each gradient"
            yield f"{policy} needs exchange.credit = 1, not {exchange.credit}: {waits}"
        if staleness.drop_above is not None:
            yield (
                f"staleness.drop_above = {staleness.drop_above} means nothing with {policy}, "
                "which takes gradients of the newest version only; leave it out"
            )


def _scaling(scaling: Scaling) -> Iterator[str]:
    if scaling.maximum < scaling.minimum:
        yield f"scaling.maximum = {scaling.maximum} must be at least scaling.minimum = {scaling.minimum}"
    if scaling.policy == "episode-duration":
        yield from _episode_duration(scaling)


def _episode_duration(scaling: Scaling) -> Iterator[str]:
    plain, unused = Scaling(), "seconds" if scaling.unit == "relative" else "relative"
    for name in ("thresholds", "first", "every"):
        other = f"{name}_{unused}"
        if getattr(scaling, other) != getattr(plain, other):
            yield f'scaling.{other} needs scaling.unit = "{unused}", not "{scaling.unit}"'
    if scaling.form == "steps":
        name = f"thresholds_{scaling.unit}"
        thresholds, additions = getattr(scaling, name), scaling.additions
        if not thresholds or len(thresholds) != len(additions):
            rule = f"must be equally long, at least one each, not {len(thresholds)} and {len(additions)}"
            yield f"scaling.{name} and scaling.additions {rule}"
        for key, values in ((name, thresholds), ("additions", additions)):
            if any(after <= before for before, after in pairwise(values)):
                yield f"scaling.{key} = {values} must rise"
