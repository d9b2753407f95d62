"""A chunk policy as one ONNX graph: normalisers, denoising loop and clipping inside.

Inputs `observation` (B, O) and `noise` (B, H, A), output `action` (B, E, A), physical units,
float32, any B >= 1.
"""

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from torch import Tensor, nn

from outrider.core.bundle.session import INPUTS, OUTPUT, Session
from outrider.core.errors import CheckFailed, MissingDependency, OutriderError
from outrider.core.learning.types import ChunkPolicy
from outrider.core.types import Float

if TYPE_CHECKING:
    import onnx

OPSET = 20
"""What torch's exporter writes without conversion; ONNX Runtime reads it from 1.17 on."""

MAX_BYTES = 1 << 31
"""A protocol buffer holds no more, and a bundle keeps the graph in one member."""


def export_graph(policy: ChunkPolicy, metadata: Mapping[str, str]) -> bytes:
    """Serialise a policy as ONNX; the same policy and metadata give the same bytes.

    Args:
        policy: a torch module. During the export it is frozen and in evaluation mode.
        metadata: goes into the model's `metadata_props`.

    Raises:
        MissingDependency: when onnx or onnxscript is not installed.
        OutriderError: when torch cannot export the module, or the graph would be too large.
    """
    with _frozen(cast(nn.Module, policy)) as module:
        graph = _traced(policy, module)
    _strip(graph)
    for key in sorted(metadata):
        graph.metadata_props.add(key=key, value=metadata[key])
    return _checked(graph)


@contextlib.contextmanager
def _frozen(module: nn.Module) -> Iterator[nn.Module]:
    modes = {part: part.training for part in module.modules()}
    trainable = [p for p in module.parameters() if p.requires_grad]
    module.eval().requires_grad_(False)
    try:
        yield module
    finally:
        for part, training in modes.items():
            part.training = training
        for parameter in trainable:
            parameter.requires_grad_(True)


def _traced(policy: ChunkPolicy, module: nn.Module) -> "onnx.ModelProto":
    observation, noise = example_inputs(policy, batch=2)
    with torch.no_grad():
        module(observation, noise)  # whatever a policy keeps between calls is there before tracing
    batch = torch.export.Dim("batch")
    try:
        with _quiet():
            program = torch.onnx.export(
                module,
                (observation, noise),
                dynamo=True,
                opset_version=OPSET,
                input_names=list(INPUTS),
                output_names=[OUTPUT],
                dynamic_shapes=({0: batch}, {0: batch}),
                verbose=False,
            )
    except ImportError as error:
        raise MissingDependency(error.name or "onnxscript", "sim", "export") from error
    except torch.onnx.errors.OnnxExporterError as error:
        cause = error.__cause__ or error
        raise OutriderError(
            f"torch cannot export {type(module).__name__} ({cause})", where="export"
        ) from error
    if program is None:
        raise OutriderError(f"torch did not export {type(module).__name__}", where="export")
    return program.model_proto


def example_inputs(
    policy: ChunkPolicy, batch: int, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """An observation (B, O) and noise (B, H, A): zeros, or normal draws from `generator`."""
    shapes = (batch, policy.observation_size), (batch, policy.horizon, policy.action_size)
    if generator is None:
        return torch.zeros(shapes[0]), torch.zeros(shapes[1])
    observation, noise = (torch.randn(shape, generator=generator) for shape in shapes)
    return observation, noise


def verify_graph(
    graph: bytes,
    policy: ChunkPolicy,
    observation: Float,
    noise: Float,
    *,
    batches: Sequence[int] = (1, 2, 7, 64),
    tolerance: float = 1e-5,
) -> float:
    """Compare the graph with the policy at several batch sizes, by ONNX Runtime on the CPU.

    Args:
        graph: what `export_graph` gave.
        policy: the policy that it was made from.
        observation: (N, O), physical; N at least as large as the largest batch.
        noise: (N, H, A).
        batches: batch sizes; the first rows are taken.
        tolerance: largest allowed error of an action element in normalised units.

    Returns:
        The largest error, in normalised units.

    Raises:
        CheckFailed: when the error is above the tolerance, or the shape is not the policy's.
    """
    session = Session(graph)
    worst = 0.0
    for batch in batches:
        rows = observation[:batch], noise[:batch]
        got = session.act(*rows)
        with torch.no_grad():
            expected = policy(*(torch.from_numpy(array) for array in rows))
            if got.shape != tuple(expected.shape):
                raise CheckFailed(
                    f"the graph gives shape {got.shape}, the policy {tuple(expected.shape)}",
                    where="export",
                )
            both = (policy.normalize_action(x) for x in (torch.from_numpy(got), expected))
            found, wanted = both
            worst = max(worst, float((found - wanted).abs().max()))
    if not worst <= tolerance:
        raise CheckFailed(
            f"the graph differs from the policy by {worst:.2g} in normalised units, "
            f"more than {tolerance:.2g}",
            where="export",
        )
    return worst


def parameter_bytes(graph: bytes) -> int:
    """Bytes of all initialisers: what an inference must at least read once."""
    import onnx

    model = onnx.load_model_from_string(graph)
    arrays = (onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer)
    return sum(int(np.asarray(array).nbytes) for array in arrays)


def _strip(model: "onnx.ModelProto") -> None:
    """Remove what tells of the exporting machine and process: traces, paths, source lines."""
    model.doc_string = ""
    del model.metadata_props[:]
    graph = model.graph
    graph.name, graph.doc_string = "policy", ""
    del graph.metadata_props[:]
    del graph.value_info[:]
    for part in (*graph.node, *graph.initializer, *graph.input, *graph.output):
        part.doc_string = ""
        del part.metadata_props[:]


def _checked(model: "onnx.ModelProto") -> bytes:
    import onnx

    size = model.ByteSize()
    if size >= MAX_BYTES:
        raise OutriderError(f"the graph has {size} bytes, more than one file holds", where="export")
    onnx.checker.check_model(model, full_check=True)
    serialized: bytes = model.SerializeToString(deterministic=True)
    return serialized


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the exporter's prints, log lines and warnings from the user."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            for message in EXPORTER_WARNINGS:
                warnings.filterwarnings("ignore", message=message)
            yield
    finally:
        logger.setLevel(level)


EXPORTER_WARNINGS = (
    r".*isinstance\(treespec, LeafSpec\)",  # torch's own use of its deprecated class
    r"# The axis name: batch will not be used",  # both inputs share the dimension on purpose
)
