"""Makes the exchange of a run as its settings say, with what computes its gradients or adds them up."""

from common.errors import ConfigurationError
from common.rl.networks.model import TorchModel
from common.rl.observation_spec import ObservationSpec
from common.settings.exchanges import most_in_message
from common.settings.sections import Settings
from common.wire.bodies.trajectory import TrajectoryFormat
from learner.exchange.actions import ActionExchange
from learner.exchange.base import Exchange
from learner.exchange.gradients import GradientExchange
from learner.exchange.policy_server import PolicyServer
from learner.exchange.step_rule import AtOnce, step_rule
from learner.exchange.trajectories import TrajectoryExchange
from learner.parameters.agreement import Agreement
from learner.parameters.batch_trainer import BatchTrainer
from learner.parameters.delay_compensation import DelayCompensation
from learner.parameters.device_trainer import trainer_of
from learner.parameters.gradient_bound import GradientBound
from learner.parameters.gradient_sum import GradientSum
from learner.parameters.replicas import Replicas
from learner.parameters.weights import Weights
from learner.room import actors_that_fit
from learner.run import Run

LARGEST_TRAJECTORY = 2**30
"""Most bytes of one message of trajectories: its memory is allocated before it is read."""
COPIES = 3
"""Times that the learner holds each rollout of an actor's unanswered messages: where it is filled or has just arrived,
where it waits for the step, and in the batch."""
STEP_BYTES = 64
"""Bytes of one step of a rollout besides its observation, about."""


def make(
    run: Run, weights: Weights, model: TorchModel, replicas: Replicas | None, observation: ObservationSpec
) -> Exchange:
    """Return the exchange that steps `weights`, which are those of `model`; `replicas`: its copies on other devices.

    Raises ConfigurationError if an actor's message would be too long.
    """
    settings = run.spec.settings
    rule = step_rule(settings, run.spec.device)
    if settings.exchange.kind == "gradients":
        return GradientExchange(run, _gradient_sum(run, weights, rule.averages))
    trainer = trainer_of(
        model,
        weights,
        settings.algorithm,
        replicas=replicas,
        graphs=settings.optimizer.cuda_graphs,
        average=rule.averages,
        seed=settings.seed,
    )
    exchange: Exchange
    if settings.exchange.kind == "actions":
        exchange = ActionExchange(run, trainer, PolicyServer(trainer, settings, observation, model.action))
    else:
        stacks = weights.transport.is_host
        packing = TrajectoryFormat(settings, observation, model.action, model.state_size, stacks=stacks)
        exchange = _trajectories(run, trainer, packing)
    if settings.exchange.kind == "actions" or not isinstance(rule, AtOnce):  # as many rollouts wait as there are actors
        fit = actors_that_fit(weights.transport.free_bytes(), _bytes_per_actor(settings, observation))
        exchange.most_actors = max(fit, settings.scaling.minimum)
        if fit < settings.scaling.most:
            run.stats.warn(
                f"the free memory holds the rollouts of {fit} actors, and the run may have {settings.scaling.most}: "
                "lower environment.num_envs or algorithm.rollout_length for more"
            )
    return exchange


def _bytes_per_actor(settings: Settings, observation: ObservationSpec) -> int:
    exchange = settings.exchange
    at_once = most_in_message(settings) * max(1, exchange.credit) if exchange.kind == "trajectories" else 1
    steps = settings.environment.num_envs * (settings.algorithm.rollout_length + 1)
    return COPIES * at_once * steps * (observation.nbytes + STEP_BYTES)


def _gradient_sum(run: Run, weights: Weights, average: bool) -> GradientSum:
    settings, section = run.spec.settings, run.spec.settings.staleness
    compensation = None
    if section.policy == "compensate":
        compensation = DelayCompensation(weights.vector, section.compensation, section.history_mib)
    return GradientSum(
        weights,
        average=average,
        compensation=compensation,
        top_k=settings.exchange.top_k,
        bound=GradientBound(settings.algorithm.max_grad_norm, settings.exchange.error_feedback),
        agreement=Agreement(weights.vector.numel()) if settings.exchange.robust == "agreement" else None,
    )


def _trajectories(run: Run, trainer: BatchTrainer, packing: TrajectoryFormat) -> TrajectoryExchange:
    exchange = TrajectoryExchange(run, trainer, packing)
    if exchange.max_bytes > LARGEST_TRAJECTORY:
        raise ConfigurationError(
            f"a trajectory could be {exchange.max_bytes >> 20:,} MiB long, at most {LARGEST_TRAJECTORY >> 20:,} are "
            "taken: lower environment.num_envs, algorithm.rollout_length or (if actors add up) exchange.accumulate"
        )
    return exchange
