"""Which network a setting stands for. Without torch, which an actor with a dense network does not need."""

from common.rl.observation_spec import ObservationSpec


def resolve(kind: str, observation: ObservationSpec) -> str:
    """Return the kind of network that `auto` stands for (conv-a3c for pictures, dense otherwise); others unchanged."""
    if kind != "auto":
        return kind
    return "conv-a3c" if observation.kind == "pixels" and len(observation.shape) == 3 else "dense"
