"""Builds and checks a user's network, `network.kind = "module:Class"`.

docs/networks.md says how to write one: its arguments, and what it must return.
"""

import contextlib
import sys
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from common.errors import ConfigurationError
from common.host.modules import bare, error_text, load, missing, module_of
from common.rl.action_spec import ActionSpec
from common.rl.networks.heads import PolicyValue, append_log_std, log_std
from common.rl.observation_spec import ObservationSpec

PROBE = 3
"""Observations in the batch that a new network is tried on."""
TOLERANCE = 1e-3
"""Relative to the largest output: dropout and batch norm change more than this, other orders of summation less."""


class Own(PolicyValue):
    """Adapts a user's module to `PolicyValue`."""

    def __init__(self, kind: str, network: nn.Module, observation: ObservationSpec, action: ActionSpec) -> None:
        super().__init__()
        self.own = network
        self.log_std = log_std(action)
        self.action = action
        self.chunk = 64 if observation.kind == "pixels" else 4096
        # The hash of the parameters' layout knows only shapes, so the types of the layers are part of this text.
        layers = " ".join(f"{name}={type(module).__name__}" for name, module in network.named_modules())
        self.architecture = f"{kind} {observation.kind}{observation.shape} {action.width} {layers}{action.suffix}"

    def features(self, observations: Tensor) -> Tensor:
        logits, values = self.own(observations)
        return append_log_std(torch.cat([logits, values.unsqueeze(1)], dim=1), self.log_std)


def build(kind: str, observation: ObservationSpec, action: ActionSpec, seed: int) -> Own:
    """Import, make and try the network that `kind`, a `module:Class`, names.

    Raises ConfigurationError if it is not found, raises an error of its own, or is not as docs/networks.md demands.
    """
    found = find(kind)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        with _blamed(kind, f"{found.__name__}(observation, {action.outputs})"):
            network = found(observation, action.outputs)
        _check(kind, network, _observations(observation), action.outputs)
    return Own(kind, network, observation, action)


def find(kind: str) -> type[nn.Module]:
    """Return the class that a `module:Class` names; raises ConfigurationError."""
    module, name = module_of(kind), bare(kind)
    with contextlib.redirect_stdout(sys.stderr):
        imported = load(module, lambda why: _problem(kind, why))
    found = getattr(imported, name, None)
    if found is None:
        networks = [
            one for one, what in vars(imported).items() if isinstance(what, type) and issubclass(what, nn.Module)
        ]
        raise _problem(kind, missing(imported, name, "network", networks))
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        raise _problem(kind, f"{name} is no class derived from torch.nn.Module")
    return found


def _check(kind: str, network: nn.Module, batch: Tensor, actions: int) -> None:
    """Try the network on a batch, which also makes the parameters of lazy layers."""
    given = f"forward on {str(batch.dtype).removeprefix('torch.')} observations {tuple(batch.shape)}"
    kept = batch.clone()
    with _blamed(kind, given):
        outputs = network(batch)
    if not (isinstance(outputs, tuple) and len(outputs) == 2 and all(isinstance(one, Tensor) for one in outputs)):
        raise _problem(kind, f"{given} must return two tensors, (logits, values)")
    for name, one, shape in zip(("logits", "values"), outputs, ((PROBE, actions), (PROBE,)), strict=True):
        if (found := tuple(one.shape)) != shape or one.dtype != torch.float32:
            raise _problem(kind, f"{given} must give {name} {shape} of torch.float32, not {found} {one.dtype}")
        if not one.requires_grad:
            raise _problem(kind, f"{given} gives {name} that depend on no parameter, so that nothing could be learnt")
    for name, parameter in network.named_parameters():
        if (form := f"{parameter.dtype} on {parameter.device.type}") != "torch.float32 on cpu":
            raise _problem(kind, f"parameter {name} is {form}, not torch.float32 on cpu")
    if not torch.equal(kept, batch):
        raise _problem(kind, "forward changes the observations it is given; they are used again")
    _check_alone(kind, network, batch, torch.cat([outputs[0], outputs[1].unsqueeze(1)], dim=1))


def _check_alone(kind: str, network: nn.Module, batch: Tensor, outputs: Tensor) -> None:
    """Check that outputs depend on the observation and the parameters alone, not on the batch or on buffers.

    Gradients are computed in other batches than actions, and on other hosts.
    """
    buffers = {name: buffer.clone() for name, buffer in network.named_buffers()}
    with _blamed(kind, "forward on one observation"):
        parts = [torch.cat([logits, values.unsqueeze(1)], dim=1) for logits, values in map(network, batch.chunk(PROBE))]
        tolerance = TOLERANCE * float(outputs.detach().abs().max())
        alike = torch.allclose(torch.cat(parts), outputs, rtol=0, atol=tolerance, equal_nan=True)
    if not alike:
        raise _problem(kind, "an observation gives one thing in a batch and another alone: no dropout, no batch norm")
    for name, buffer in network.named_buffers():
        if not torch.equal(buffer, buffers[name]):
            raise _problem(kind, f"forward changes the buffer {name}; only parameters travel between the hosts")


def _observations(spec: ObservationSpec) -> Tensor:
    shape = (PROBE, *spec.shape)
    if spec.kind == "box":
        return torch.randn(shape)
    if spec.kind == "pixels":
        return torch.randint(0, 256, shape, dtype=torch.uint8)
    return torch.randint(0, spec.size, shape)


@contextlib.contextmanager
def _blamed(kind: str, doing: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise _problem(kind, f"{doing} raised {error_text(error)}") from error


def _problem(kind: str, what: str) -> ConfigurationError:
    return ConfigurationError(f"network.kind = {kind}: {what}")
