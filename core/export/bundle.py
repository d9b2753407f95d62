"""Putting a bundle together: written aside, read back, verified, and only then put in place."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outrider.core.bundle.archive import PARITY, ParityVectors, open_bundle, write_bundle
from outrider.core.bundle.manifest import Manifest
from outrider.core.bundle.verify import verify
from outrider.core.config import validate
from outrider.core.errors import OutriderError
from outrider.core.files import replacing
from outrider.core.task_json import task_to_json
from outrider.core.types import Float, TaskSpec


@dataclass(frozen=True, slots=True)
class Contents:
    """What goes into a bundle.

    Attributes:
        name: of the policy.
        version: MAJOR.MINOR.PATCH.
        description: one sentence.
        task: specs of the task.
        graph: serialised ONNX model.
        opset: of the graph.
        horizon: H.
        execute: E.
        vectors: recorded observations, noise, and what the policy answered.
        action_scale: (A,) physical units per normalised unit.
        tolerance: allowed error in normalised units.
        denoising: settings of the sampler.
        plugins: name -> version.
        provenance: recipe, code version, data digest, seeds.
        evaluation: what is known of the policy's worth.
        parts: plugin -> relative name -> content; they travel under `parts/PLUGIN/`.
        files: further members, such as `report/report.html`.
    """

    name: str
    version: str
    task: TaskSpec
    graph: bytes
    opset: int
    horizon: int
    execute: int
    vectors: ParityVectors
    action_scale: Float
    tolerance: float
    description: str = ""
    denoising: Mapping[str, Any] = field(default_factory=dict)
    plugins: Mapping[str, str] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    evaluation: Mapping[str, Any] = field(default_factory=dict)
    parts: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)


def assemble(path: Path, contents: Contents) -> float:
    """Write the bundle `path`; returns the parity error measured on it, in normalised units.

    Raises:
        CheckFailed: when the graph does not reproduce the recorded actions; nothing is left then.
        OutriderError: when a name is not plain or is taken, a number is not finite, vectors are
            too few, or the disk is full; nothing is left then either.
    """
    members = _members(path, contents)
    with replacing(path) as fresh:
        write_bundle(fresh, _manifest(contents, error=0.0), members)
        certificate = verify(open_bundle(fresh))
        certificate.require()
        error = certificate.max_abs_error
        write_bundle(fresh, _manifest(contents, error), members)
        open_bundle(fresh)
    return error


def _members(path: Path, contents: Contents) -> dict[str, bytes]:
    policy = {"policy.onnx": contents.graph, PARITY: contents.vectors.to_bytes()}
    parts = {
        f"parts/{plugin}/{name}": data
        for plugin, files in contents.parts.items()
        for name, data in files.items()
    }
    taken = sorted(name for name in contents.files if name in policy or name.startswith("parts/"))
    if taken:
        raise OutriderError(
            f"a further file is called {taken[0]!r}", where=str(path), fix="Rename it."
        )
    return {**policy, **parts, **contents.files}


def _manifest(contents: Contents, error: float) -> Manifest:
    O, A = contents.task.observation.size, contents.task.action.size  # noqa: E741
    low, high = contents.task.action.low, contents.task.action.high
    values = {
        "name": contents.name,
        "version": contents.version,
        "description": contents.description,
        "task": task_to_json(contents.task),
        "horizon": contents.horizon,
        "execute": contents.execute,
        "graph": {
            "opset": contents.opset,
            "inputs": {"observation": [None, O], "noise": [None, contents.horizon, A]},
            "outputs": {"action": [None, contents.execute, A]},
        },
        "action_scale": [float(x) for x in contents.action_scale],
        "parity": {
            "n": len(contents.vectors.observation),
            "tolerance": contents.tolerance,
            "max_abs_error": error,
            "provider": "cpu",
        },
        "denoising": dict(contents.denoising),
        "precision": {"fp32": {"file": "policy.onnx", "max_abs_error": error}},
        "robot": {"task": contents.task.task},
        "safety": {"low": [float(x) for x in low], "high": [float(x) for x in high]},
        "plugins": dict(contents.plugins),
        "provenance": dict(contents.provenance),
        "evaluation": dict(contents.evaluation),
    }
    return validate(Manifest, values, "export: manifest")
