"""One optimizer step on the flat parameter vector, in place."""

import abc
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from common.errors import ConfigurationError
from common.settings.exchanges import ADAMS_BETA1
from common.settings.sections import Optimizer


class FlatOptimizer(abc.ABC):
    """Changes one float32 vector (size,) in place, step by step; its statistics are on the vector's device."""

    def __init__(self, section: Optimizer, vector: Tensor, total_frames: int) -> None:
        self.section = section
        self.vector = vector
        self._total_frames = total_frames if section.anneal == "linear" else 0
        self.learning_rate = section.learning_rate
        """Annealed learning rate of the last step, without `scale` and `factor`; before any, the initial one."""
        self.step_size = 0.0
        """Learning rate of the last step, with all its factors."""
        self.factor = 1.0
        """Factor on the learning rate of all further steps, in addition to annealing and `scale`."""
        self._state: dict[str, Tensor] = {}

    def step(self, gradient: Tensor, *, scale: float, frames: int, taken: Tensor | None = None) -> None:
        """Take one step along `gradient`, float32 (size,) on the vector's device, which is not changed.

        `scale` multiplies the learning rate (staleness); the statistics see the gradient unscaled. `frames`: those of
        the run so far, for annealing. `taken`: a bool () on the device; if it is False, nothing changes.
        """
        self.anneal(frames)
        self.step_size = self.learning_rate * self.factor * scale
        self._update(gradient, self.step_size, taken)

    def anneal(self, frames: int) -> None:
        """Set the learning rate to that of a step after so many frames of the run."""
        if self._total_frames:
            self.learning_rate = self.section.learning_rate * max(0.0, 1 - frames / self._total_frames)

    @abc.abstractmethod
    def _update(self, gradient: Tensor, learning_rate: float, taken: Tensor | None) -> None:
        """Change the statistics and the vector, unless `taken` is False."""

    def state(self) -> dict[str, Tensor]:
        """Return the statistics by name: the tensors in use, not copies."""
        return dict(self._state)

    def load(self, state: dict[str, Tensor]) -> None:
        """Restore the statistics; raises ConfigurationError, with nothing changed, if they do not fit this vector."""
        needed, found = (
            {name: tuple(tensor.shape) for name, tensor in sorted(each.items())} for each in (self._state, state)
        )
        if found != needed:
            raise ConfigurationError(
                f"optimizer.kind: {self.section.kind} needs the state {needed}, but there is "
                f"{found}; resume with the optimizer that made it"
            )
        for name, tensor in self._state.items():
            tensor.copy_(state[name])


class Adam(FlatOptimizer):
    """Kingma and Ba 2014, https://arxiv.org/abs/1412.6980: torch's fused kernel, eps outside the root."""

    def __init__(self, section: Optimizer, vector: Tensor, total_frames: int) -> None:
        super().__init__(section, vector, total_frames)
        self._state = {
            "mean": torch.zeros_like(vector),
            "square": torch.zeros_like(vector),
            "steps": torch.zeros((), device=vector.device),
        }
        self._beta1 = ADAMS_BETA1 if section.beta1 is None else section.beta1
        self._vectors, *self._statistics = [[tensor] for tensor in (vector, *self._state.values())]
        steps = self._state["steps"]
        self._steps: Tensor | NDArray[Any] = steps.numpy() if steps.device.type == "cpu" else steps
        """The memory of the step count, on a CPU as an array: torch would take longer to add 1 than for all of a small
        network's gradient."""

    def _update(self, gradient: Tensor, learning_rate: float, taken: Tensor | None) -> None:
        # This calls the kernel itself: the class torch.optim.Adam costs 50 us more for each step, and the function
        # around the kernel 10 us, as much as a small network's update.
        means, squares, steps = self._statistics
        if taken is None:
            self._steps += 1
        else:
            steps[0].add_(taken)
        torch._fused_adam_(
            self._vectors,
            [gradient],
            means,
            squares,
            [],
            steps,
            lr=learning_rate,
            beta1=self._beta1,
            beta2=self.section.beta2,
            weight_decay=0.0,
            eps=self.section.epsilon,
            amsgrad=False,
            maximize=False,
            found_inf=None if taken is None else torch.logical_not(taken).float(),
        )


class RMSProp(FlatOptimizer):
    """A3C's form: g <- a g + (1 - a) d^2; theta <- theta - eta d / sqrt(g / (1 - a^t) + eps), eps inside the root.

    Mnih et al. 2016, https://arxiv.org/abs/1602.01783, section 4 (torch.optim.RMSprop adds eps outside), with Adam's
    correction of g's start from 0: without it the first step moves every weight by eta / sqrt(1 - a), ten times eta,
    which can leave a convolution's units dead. (TensorFlow 1 starts from 1 instead, and so with tiny steps.)
    """

    def __init__(self, section: Optimizer, vector: Tensor, total_frames: int) -> None:
        super().__init__(section, vector, total_frames)
        self._state = {"square": torch.zeros_like(vector), "weight": torch.zeros((), device=vector.device)}
        self._root, self._one = torch.empty_like(vector), torch.ones((), device=vector.device)

    def load(self, state: dict[str, Tensor]) -> None:
        # Checkpoints of before the correction have no weight: theirs has long come to 1.
        super().load({"weight": torch.ones(())} | state)

    def _update(self, gradient: Tensor, learning_rate: float, taken: Tensor | None) -> None:
        square, weight = self._state["square"], self._state["weight"]
        decay: float | Tensor = self.section.decay
        if taken is not None:
            decay = torch.where(taken, decay, 1.0)
            gradient = torch.where(taken, gradient, 0.0)
        square.mul_(decay).addcmul_(gradient, gradient, value=1 - self.section.decay)
        weight.lerp_(self._one, 1 - decay)
        if taken is not None:
            weight = torch.where(taken, weight, 1.0)  # or there would be 0 / 0 until the first that is taken
        torch.div(square, weight, out=self._root).add_(self.section.epsilon).sqrt_()
        self.vector.addcdiv_(gradient, self._root, value=-learning_rate)


class SGD(FlatOptimizer):
    """m <- momentum m + d; theta <- theta - eta m."""

    def __init__(self, section: Optimizer, vector: Tensor, total_frames: int) -> None:
        super().__init__(section, vector, total_frames)
        if section.momentum:
            self._state = {"momentum": torch.zeros_like(vector)}

    def _update(self, gradient: Tensor, learning_rate: float, taken: Tensor | None) -> None:
        if taken is not None:
            gradient = torch.where(taken, gradient, 0.0)
        if self.section.momentum:
            momentum = self.section.momentum if taken is None else torch.where(taken, self.section.momentum, 1.0)
            gradient = self._state["momentum"].mul_(momentum).add_(gradient)
            if taken is not None:
                gradient = torch.where(taken, gradient, 0.0)
        self.vector.add_(gradient, alpha=-learning_rate)


_KINDS: dict[str, type[FlatOptimizer]] = {"adam": Adam, "rmsprop": RMSProp, "sgd": SGD}


def make(section: Optimizer, vector: Tensor, total_frames: int) -> FlatOptimizer:
    """Return the optimizer of `vector`, float32 (size,); linear annealing is 0 at `total_frames` (limits.frames)."""
    return _KINDS[section.kind](section, vector, total_frames)
