"""The formats of an exported policy: each writes the file's bytes, and computes with them for the comparison."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from actor.export.policy import Policy
from common.errors import ConfigurationError

Computed = Callable[..., list[NDArray[Any]]]
"""Computes outputs from inputs, in the order of `Policy.outputs` and `Policy.inputs`."""
EXAMPLE = 3
"""Size of the batch that is traced; the file takes any size."""
OPSET = 18
"""ONNX operator set: the oldest that PyTorch's exporter writes without a conversion."""
METADATA = "a3cd.json"
"""Name of the metadata file inside a .pt2."""
_UNTRACED = "TorchExportError"
"""The error that torch.onnx raises when torch.export, on which it is built, has failed."""
_PLACE = re.compile(r'File "(.+)", line (\d+)')


def onnx(policy: Policy) -> tuple[bytes, Computed]:
    """Export to ONNX. Raises ConfigurationError if a package is missing, or if ONNX cannot hold the network."""
    try:
        import onnx
        import onnxruntime
        import onnxscript  # noqa: F401  # what torch.onnx writes with
    except ImportError as error:
        raise ConfigurationError(f".onnx files need {error.name}: pip install 'a3cd[onnx]'") from error
    batch = torch.export.Dim("batch", min=1)
    with _blamed("ONNX", ".pt2 or .safetensors"), _silent("torch.onnx", "onnxscript", "onnx_ir"):
        program: Any = torch.onnx.export(
            policy.module,
            policy.example(EXAMPLE),
            dynamo=True,
            opset_version=OPSET,
            input_names=policy.inputs,
            output_names=policy.outputs,
            dynamic_shapes=tuple({0: batch} for _ in policy.inputs),
            verbose=False,
        )
        model = program.model_proto
        onnx.helper.set_model_props(model, policy.metadata)
        data = model.SerializeToString()
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])

    def compute(*inputs: NDArray[Any]) -> list[NDArray[Any]]:
        found: list[NDArray[Any]] = session.run(policy.outputs, dict(zip(policy.inputs, inputs, strict=True)))
        return found

    return data, compute


def pt2(policy: Policy) -> tuple[bytes, Computed]:
    """Export with torch.export. Raises ConfigurationError if it cannot trace the network."""
    batch = torch.export.Dim("batch", min=1)
    file = io.BytesIO()
    with _blamed("torch.export", ".safetensors"), _silent("torch.export"):
        shapes = tuple({0: batch} for _ in policy.inputs)
        program = torch.export.export(policy.module, policy.example(EXAMPLE), dynamic_shapes=shapes)
        torch.export.save(program, file, extra_files={METADATA: json.dumps(policy.metadata)})
        file.seek(0)
        loaded = torch.export.load(file).module()
    return file.getvalue(), _of_torch(loaded)


def safetensors(policy: Policy) -> tuple[bytes, Computed]:
    """Export the tensors of `PlainNetwork` by name."""
    from safetensors.torch import load, save

    network = policy.module.network
    tensors = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    data = save(tensors, policy.metadata)
    network.load_state_dict(load(data))
    return data, _of_torch(policy.module)


def _of_torch(module: Callable[..., tuple[Tensor, ...]]) -> Computed:
    def compute(*inputs: NDArray[Any]) -> list[NDArray[Any]]:
        with torch.inference_mode():
            return [np.asarray(one) for one in module(*map(torch.from_numpy, inputs))]

    return compute


@contextlib.contextmanager
def _blamed(what: str, others: str) -> Iterator[None]:
    """Turn the exporters' errors, of many kinds and pages long, into one ConfigurationError that suggests `others`."""
    try:
        yield
    except Exception as error:
        first: BaseException = error
        while first.__cause__ is not None:
            first = first.__cause__
        if _UNTRACED in type(error).__name__:  # then neither ONNX nor .pt2 can hold it
            others = ".safetensors"
        place = _PLACE.search(str(first))
        at = f", at {place[1]}:{place[2]}" if place else ""
        text = " ".join(str(first).strip().partition("\n")[0].split())[:200]
        raise ConfigurationError(
            f"{what} cannot hold this run's network ({type(first).__name__}: {text}{at}); export it to {others} instead"
        ) from error


@contextlib.contextmanager
def _silent(*loggers: str) -> Iterator[None]:
    """Silence the exporters, which print whole programs to stderr when they fail."""
    before = [(one, one.level) for one in map(logging.getLogger, (*loggers, "torch.fx.experimental.symbolic_shapes"))]
    for one, _ in before:
        one.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for one, level in before:
            one.setLevel(level)
