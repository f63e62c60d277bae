"""From an action spec and a network's outputs to a distribution."""

from common.rl.action_spec import ActionSpec
from common.rl.arrays import Array
from common.rl.distributions.base import Distribution
from common.rl.distributions.categorical import Categorical, MultiCategorical
from common.rl.distributions.gaussian import Gaussian


def distribution(spec: ActionSpec, outputs: Array) -> Distribution:
    """Return the distributions of actions in N states. outputs: (N, spec.width), the policy's numbers for them."""
    if spec.kind == "discrete":
        return Categorical(outputs)
    return Gaussian(spec, outputs) if spec.kind == "box" else MultiCategorical(spec, outputs)
