"""What networks on pictures share: the check that observations are pictures, and the scaling of their values."""

from torch import Tensor, nn

from common.errors import ConfigurationError
from common.rl.networks.plain_layers import Scale, SubtractBackground
from common.rl.networks.statistics import Statistics
from common.rl.networks.trunk import Trunk
from common.rl.observation_spec import ObservationSpec


class PictureTrunk(Trunk):
    """A trunk on uint8 pictures (channels, height, width), whose values 0..255 it divides by 255; or it subtracts a
    background from them and divides what is left by its deviation.

    Raises ConfigurationError for observations that are not pictures.
    """

    def __init__(self, observation: ObservationSpec, background: Tensor | None) -> None:
        """background: (C * H * W + 1,), the mean picture, then 1 / the deviation from it; it may change in place."""
        super().__init__()
        self._shape = _shape(observation)
        self.statistics = None if background is None else Statistics(background)
        """The background."""

    def _scaled(self, pictures: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Return the float pictures (N, ...) less the background, and the first layer's weight scaled for them.

        Scaling the weight is cheaper: a first layer has some thousand weights, a frame of 84x84x4 has 28,224 pixels.
        """
        if self.statistics is None:
            return pictures, weight * (1 / 255)
        there = self.statistics.there
        return pictures.sub_(self._arranged(there[:-1].view(1, *self._shape))), weight * there[-1]

    def _arranged(self, pictures: Tensor) -> Tensor:
        """Return pictures (N, channels, height, width) of any type as float32, pixels in the order of the network."""
        raise NotImplementedError

    def _plain_scaling(self) -> nn.Module:
        """Return the scaling as a layer."""
        if self.statistics is None:
            return Scale(1 / 255)
        return SubtractBackground(self.statistics.shared[:-1].view(self._shape), self.statistics.shared[-1])

    def _described(self, layers: str) -> str:
        """Return the architecture, which tells the scaling: pictures of another scale need other weights."""
        return layers if self.statistics is None else f"background {layers}"


def _shape(observation: ObservationSpec) -> tuple[int, int, int]:
    if observation.kind != "pixels" or len(observation.shape) != 3:
        raise ConfigurationError(
            f"network.kind: a conv network takes uint8 pictures (channels, height, width), but the observations "
            f'are {observation.kind} of shape {observation.shape}; use dense, or environment.observation = "frames"'
        )
    channels, height, width = observation.shape
    return channels, height, width
