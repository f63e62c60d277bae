"""What networks on pictures share: the check that observations are pictures, and the scaling of their values."""

from torch import Tensor, nn

from common.errors import ConfigurationError
from common.rl.networks.plain_layers import NormalizePicture, Scale, normalized
from common.rl.networks.trunk import Trunk
from common.rl.observation_spec import ObservationSpec


class PictureTrunk(Trunk):
    """A trunk on uint8 pictures (channels, height, width), whose values 0..255 it divides by 255 or, with `normalize`,
    scales as `normalized` does.

    Raises ConfigurationError for observations that are not pictures.
    """

    def __init__(self, observation: ObservationSpec, *, normalize: bool) -> None:
        super().__init__()
        self._shape = _shape(observation)
        self._normalizes = normalize

    def _scaled(self, pictures: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Return pictures and the first layer's weight, of which one is scaled.

        pictures: float (N, ...), values 0..255, pixels in any order.
        """
        if self._normalizes:
            return normalized(pictures), weight
        # Scaling the weight is cheaper: a first layer has some thousand weights, a frame of 84x84x4 has 28,224 pixels.
        return pictures, weight * (1 / 255)

    def _plain_scaling(self, block: int = 1) -> nn.Module:
        """Return the scaling as a layer; pictures are cut to multiples of `block`, where that changes their mean."""
        return NormalizePicture(block) if self._normalizes else Scale(1 / 255)

    def _described(self, layers: str) -> str:
        """Return the architecture, which tells the scaling: pictures of another scale need other weights."""
        return f"normalized {layers}" if self._normalizes else layers


def _shape(observation: ObservationSpec) -> tuple[int, int, int]:
    if observation.kind != "pixels" or len(observation.shape) != 3:
        raise ConfigurationError(
            f"network.kind: a conv network takes uint8 pictures (channels, height, width), but the observations "
            f'are {observation.kind} of shape {observation.shape}; use dense, or environment.observation = "frames"'
        )
    channels, height, width = observation.shape
    return channels, height, width
