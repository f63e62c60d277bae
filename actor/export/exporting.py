"""Export a trained policy to a file, after checking that it acts as the agent does."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from actor.agent.trained_agent import Which, open_run
from common.errors import ConfigurationError, TorchMissingError, UnavailableError
from common.host.atomic_file import replace_file
from common.run.runs import find_run

FORMATS = {".onnx": "onnx", ".pt2": "pt2", ".safetensors": "safetensors"}


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """A policy in a file."""

    file: str
    size: int
    """Size of the file in bytes."""
    env: str
    version: int
    """Version of the weights: the number of optimizer steps that made them."""
    observations: int
    """Number of observations on which the file was compared with the agent."""
    ties: int
    """Number of these for which the file gave another action, as good as the agent's to the last digits."""
    difference: float
    """The largest difference between the file's policy numbers and values and the agent's."""


def export(run: str | os.PathLike[str], to: str | os.PathLike[str], *, checkpoint: Which = "best") -> Exported:
    """Write the policy of a run to the file `to` (.onnx, .pt2 or .safetensors), which is overwritten.

    run, checkpoint: as in `load`. The file computes the best action for each observation of a batch, and is first
    compared with the agent on 1,000 observations of the agent's play. docs/library.md says what is in it.
    Raises ConfigurationError (no run, another kind of file, a package is missing, the format cannot hold the network)
    and UnavailableError (the file cannot be written, the environment fails).
    """
    out = Path(to)
    if out.suffix.lower() not in FORMATS:
        raise ConfigurationError(f"{out}: a policy is exported to a {', '.join(FORMATS)} file")
    if not out.parent.is_dir():
        raise ConfigurationError(f"{out}: there is no folder {out.parent}")
    path = find_run(Path(run))
    trained = open_run(path, checkpoint)
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError as error:
        raise TorchMissingError("an export") from error
    from actor.export import formats
    from actor.export.comparison import compare
    from actor.export.policy import policy_of

    data, compute = getattr(formats, FORMATS[out.suffix.lower()])(policy_of(trained, path.resolve().name))
    compared = compare(trained, compute)
    try:
        replace_file(out, data)
    except OSError as error:
        raise UnavailableError(f"{out}: cannot be written: {error.strerror}") from error
    return Exported(
        file=str(out),
        size=len(data),
        env=trained.settings.environment.id,
        version=trained.checkpoint.version,
        observations=compared.observations,
        ties=compared.ties,
        difference=compared.difference,
    )
