"""Independent normal distributions; some of the numbers are squashed by tanh afterwards.

The actions here are the numbers before tanh, so that tanh is never inverted. Their log-probabilities are those of the
squashed numbers (Haarnoja et al. 2018, https://arxiv.org/abs/1801.01290, appendix C); the term of tanh is the same
under every policy and cancels in ratios and derivatives. The entropy is the Gaussian's: that of the squashed numbers
has no closed form. The mode is the mean, which is the median of the squashed number.
"""

import math
from functools import cached_property

import numpy as np

from common.rl import arrays
from common.rl.action_spec import ActionSpec
from common.rl.arrays import Array
from common.rl.distributions.base import Actions, Distribution, Floats

STD_FLOOR = 1e-3
"""Added to every standard deviation: without it the density of a policy could grow without bound."""
_HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)
_LOG_2 = math.log(2)


class Gaussian(Distribution):
    """pi(a) is the product of normal densities."""

    def __init__(self, spec: ActionSpec, outputs: Array) -> None:
        """outputs: (N, 2 * spec.count): means, then numbers whose exp or softplus is the standard deviation."""
        self._shape = spec.shape
        self._softplus = spec.log_std == "state"
        self._squashed = [number for number, one in enumerate(spec.squashed) if one]
        self._arrays = arrays.of(outputs)
        self._mean, self._raw = outputs[:, : spec.count], outputs[:, spec.count :]
        with np.errstate(over="ignore"):  # with enormous weights the gradient is not finite, and is dropped
            std = self._arrays.softplus(self._raw) if self._softplus else self._arrays.exp(self._raw)
        self._std = std + STD_FLOOR

    @cached_property
    def _slope(self) -> Array:
        """Derivative of log std with respect to the outputs it is computed from."""
        rise = 0.5 * (1 + self._arrays.tanh(0.5 * self._raw)) if self._softplus else self._std - STD_FLOOR
        return rise / self._std

    @cached_property
    def _log_scale(self) -> Array:
        """The part of the log densities (N,) that does not depend on the action."""
        return self._arrays.log(self._std).sum(axis=1) + self._mean.shape[1] * _HALF_LOG_TAU

    def sample(self, rng: np.random.Generator) -> tuple[Floats, Floats]:
        noise = rng.standard_normal(self._mean.shape, dtype=np.float32)
        actions: Floats = self._mean + self._std * noise
        return actions.reshape(-1, *self._shape), self._density(noise, actions)

    def mode(self) -> Actions:
        return self._mean.reshape(-1, *self._shape)

    def log_prob(self, actions: Actions) -> Array:
        flat = actions.reshape(self._mean.shape)
        return self._density((flat - self._mean) / self._std, flat)

    def score(self, actions: Actions, coefficients: Array) -> Array:
        """With z = (a - mean) / std, the derivative is z / std for the mean and (z^2 - 1) / std for std."""
        z = (actions.reshape(self._mean.shape) - self._mean) / self._std
        gradient = self._arrays.concatenated([z / self._std, (z * z - 1) * self._slope], axis=1)
        gradient *= coefficients[:, None]
        return gradient

    def entropy(self) -> Array:
        """Return the entropies before tanh: the sum of log std + log(2 pi e) / 2."""
        return self._log_scale + 0.5 * self._mean.shape[1]

    def entropy_gradient(self, coefficients: Array) -> Array:
        """The derivative is 0 for the mean and 1 / std for std."""
        gradient = self._arrays.concatenated([self._arrays.zeros_like(self._mean), self._slope], axis=1)
        gradient *= coefficients[:, None]
        return gradient

    def _density(self, z: Array, actions: Array) -> Array:
        density = -0.5 * (z * z).sum(axis=1) - self._log_scale
        if self._squashed:
            u = self._arrays.columns(actions, self._squashed)
            # log(1 - tanh(u)^2), in a form that holds where tanh is 1 in float32.
            density -= 2 * (_LOG_2 - u - self._arrays.softplus(-2 * u)).sum(axis=1)
        return density
