"""Policy and value as linear layers on the trunks' features."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from common.rl.dense.layout import DenseLayout
from common.rl.dense.trunk import Accumulator, Floats, Parameters


class Heads:
    """Policy and value as one layer; if each has a trunk of its own, they take different rows of the layer."""

    def __init__(self, layout: DenseLayout, parameters: Parameters, gradients: Parameters) -> None:
        self._policy = layout.action.outputs
        self._shared = layout.shared
        self._weight, self._bias = parameters["head_weight"], parameters["head_bias"]
        self._by_weight, self._by_bias = gradients["head_weight"], gradients["head_bias"]
        self._transposed = self._weight.T
        self._log_std, self._by_log_std = parameters.get("log_std"), gradients.get("log_std")

    def forward(self, features: Sequence[Floats], outputs: Floats) -> None:
        """Write policy and value into `outputs` (N, action.width + 1). features: (N, F) of each trunk."""
        n = self._policy
        joint = outputs if self._log_std is None else np.empty((len(outputs), n + 1), np.float32)
        if self._shared:
            np.dot(features[0], self._transposed, out=joint)
        else:
            policy, value = features
            joint[:, :n] = np.dot(policy, self._transposed[:, :n])
            joint[:, n:] = np.dot(value, self._transposed[:, n:])
        joint += self._bias
        if self._log_std is not None:
            outputs[:, :n], outputs[:, n:-1], outputs[:, -1] = joint[:, :n], self._log_std, joint[:, n]

    def backward(
        self, derivative: Floats, features: Sequence[Floats], by_features: Sequence[Floats], add: Accumulator
    ) -> None:
        """Back-propagate to the parameters, and into `by_features`. derivative: with respect to the outputs."""
        n = self._policy
        if self._by_log_std is not None:
            add.rows(derivative[:, n:-1], self._by_log_std)
            derivative = np.concatenate([derivative[:, :n], derivative[:, -1:]], axis=1)
        if self._shared:
            add(derivative, features[0], self._by_weight, self._by_bias)
            np.dot(derivative, self._weight, out=by_features[0])
            return
        for part, inputs, out in zip((slice(n), slice(n, None)), features, by_features, strict=True):
            delta = derivative[:, part]
            add(delta, inputs, self._by_weight[part], self._by_bias[part])
            np.dot(delta, self._weight[part], out=out)
