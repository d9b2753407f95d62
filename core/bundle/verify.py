"""Parity re-proved on the device that will run the bundle, by the provider that it will use."""

import hashlib
import json
import platform
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from outrider.core.bundle.archive import Bundle, ParityVectors
from outrider.core.bundle.session import Session, runtime_version
from outrider.core.errors import CheckFailed, OutriderError
from outrider.core.task_json import task_to_json
from outrider.core.types import Float, TaskSpec

MIN_VECTORS = 100
BLOCK = 256
"""Rows that are inferred at a time: memory must not grow with what a bundle brings along."""
ONE_BY_ONE = 8
"""Rows that are inferred alone as well: a graph must not care who shares its batch."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a verification found.

    Attributes:
        bundle: NAME-VERSION.
        passed: whether everything below holds.
        failures: one sentence for each thing that does not.
        n: recorded observations that were replayed.
        tolerance: allowed error, normalised units.
        max_abs_error: largest error of any action of the chunk, normalised units.
        first_action_error: largest error of the chunk's first action, normalised units.
        field_errors: largest error of each action field, in its physical unit.
        batch_error: largest difference between one batch and rows one by one, normalised units.
        provider: execution provider that was active.
        device: machine and processor architecture.
        versions: of what ran.
    """

    bundle: str
    passed: bool
    failures: tuple[str, ...]
    n: int
    tolerance: float
    max_abs_error: float
    first_action_error: float
    field_errors: dict[str, float]
    batch_error: float
    provider: str
    device: str
    versions: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        """A JSON value; an error that is not a number becomes null."""
        values = asdict(self) | {"failures": list(self.failures)}
        return {
            key: None if isinstance(x, float) and not np.isfinite(x) else x
            for key, x in values.items()
        } | {
            "field_errors": {
                name: x if np.isfinite(x) else None for name, x in self.field_errors.items()
            }
        }

    def require(self) -> None:
        """Raise CheckFailed with the first failure unless all holds."""
        if not self.passed:
            raise CheckFailed(
                self.failures[0],
                where=self.bundle,
                fix="Do not run it on this device; export it again and compare the versions.",
            )


def verify(bundle: Bundle, provider: str = "cpu", threads: int = 1) -> Certificate:
    """Replay the recorded observations and compare with the recorded actions.

    Args:
        bundle: opened, so its members are those of the manifest.
        provider: execution provider to prove it on.
        threads: of an inference.

    Raises:
        OutriderError: when the provider is not active, the graph cannot be loaded, or the bundle
            holds too few recorded observations to prove anything.
        CheckFailed: when an inference fails. What only fails to agree is told by the certificate.
    """
    vectors = bundle.parity()
    if len(vectors.observation) < MIN_VECTORS:
        raise OutriderError(
            f"{len(vectors.observation)} recorded observations, at least {MIN_VECTORS} are needed",
            where=str(bundle.path),
            fix="Export it again with more (export.parity_vectors).",
        )
    session = Session(bundle.graph(), provider, threads)
    failures = contract_failures(bundle, session)
    if failures:
        return _certificate(bundle, session, vectors, failures, None, np.nan)
    answer, failure = _replay(session, vectors)
    if failure:
        return _certificate(bundle, session, vectors, (failure,), None, np.nan)
    single = _one_by_one(session, vectors)
    batch_error = _worst(single, answer[: len(single)], bundle)
    return _certificate(bundle, session, vectors, (), answer, batch_error)


def _replay(session: Session, vectors: ParityVectors) -> tuple[Float, str]:
    """All answers (n, E, A), and why they are none; the reason is empty where they are."""
    answers: Float = np.empty_like(vectors.action)
    for start in range(0, len(answers), BLOCK):
        rows = slice(start, start + BLOCK)
        found = session.act(vectors.observation[rows], vectors.noise[rows])
        expected = answers[rows].shape
        if found.shape != expected:
            return answers, f"the graph gives actions {found.shape}, recorded were {expected}"
        answers[rows] = found
    return answers, ""


def _one_by_one(session: Session, vectors: ParityVectors) -> Float:
    """The first answers (m, E, A) again, each from a batch of its own."""
    rows = range(min(ONE_BY_ONE, len(vectors.observation)))
    answers = [session.act(vectors.observation[i : i + 1], vectors.noise[i : i + 1]) for i in rows]
    return np.concatenate(answers)


def _errors(found: Float, expected: Float) -> npt.NDArray[np.float64]:
    """Absolute differences (n, E, A), physical units; NaN where an answer is not finite."""
    with np.errstate(invalid="ignore"):
        return np.abs(found.astype(np.float64) - expected)


def _worst(found: Float, expected: Float, bundle: Bundle) -> float:
    return float(_normalized(_errors(found, expected), bundle).max())


def _normalized(error: npt.NDArray[np.float64], bundle: Bundle) -> npt.NDArray[np.float64]:
    """Physical errors (..., A) -> normalised; infinite where a scale is next to nothing."""
    with np.errstate(over="ignore"):
        return error / np.asarray(bundle.manifest.action_scale, np.float64)


def contract_failures(bundle: Bundle, session: Session) -> tuple[str, ...]:
    """Where the graph is not what the manifest promises."""
    manifest, task = bundle.manifest, bundle.task
    H, E, A, O = manifest.horizon, manifest.execute, task.action.size, task.observation.size  # noqa: E741
    promised = {"observation": [None, O], "noise": [None, H, A], "action": [None, E, A]}
    found = {**session.inputs, **session.outputs}
    failures = [
        f"the graph's {name} has shape {_text(found[name])}, the contract says {_text(shape)}"
        for name, shape in promised.items()
        if found[name] != shape
    ]
    declared = {**manifest.graph.inputs, **manifest.graph.outputs}
    if declared != found:
        failures.append("the manifest declares other shapes than the graph has")
    return tuple(failures + _metadata_failures(bundle, session.metadata))


def _metadata_failures(bundle: Bundle, found: dict[str, str]) -> list[str]:
    """A graph exported without the task's digest is not refused for the lack of it."""
    manifest = bundle.manifest
    expected = contract_metadata(manifest.name, manifest.version, bundle.task)
    if DIGEST not in found:
        del expected[DIGEST]
    return [
        f"the graph's metadata says {key} = {str(found.get(key))[:80]!r}, the manifest {value!r}"
        for key, value in expected.items()
        if found.get(key) != value
    ]


DIGEST = "outrider.task_sha256"


def contract_metadata(name: str, version: str, task: str | TaskSpec) -> dict[str, str]:
    """What the graph itself carries of the contract, so that it cannot be swapped unnoticed.

    Given the specs and not only the task's name, a digest of them is carried too: fields in
    another order, another unit or another rate are found by it, which parity cannot see.
    """
    label = task if isinstance(task, str) else task.task
    metadata = {"outrider.name": name, "outrider.version": version, "outrider.task": label}
    if isinstance(task, TaskSpec):
        text = json.dumps(task_to_json(task), sort_keys=True)
        metadata[DIGEST] = hashlib.sha256(text.encode()).hexdigest()
    return metadata


def _certificate(
    bundle: Bundle,
    session: Session,
    vectors: ParityVectors,
    failures: tuple[str, ...],
    answer: Float | None,
    batch_error: float,
) -> Certificate:
    tolerance = bundle.manifest.parity.tolerance
    A = bundle.task.action.size
    error = np.full((1, 1, A), np.nan)
    if answer is not None:
        error = _errors(answer, vectors.action)
    normalized = _normalized(error, bundle)
    worst, first = float(normalized.max()), float(normalized[:, 0].max())
    if answer is not None and not worst <= tolerance:  # so that NaN fails
        failures += (f"actions differ by {worst:.3g} in normalised units, allowed {tolerance:.3g}",)
    if answer is not None and not batch_error <= tolerance:
        failures += (f"a batch differs from its rows one by one by {batch_error:.3g}",)
    return Certificate(
        bundle=f"{bundle.manifest.name}-{bundle.manifest.version}",
        passed=not failures,
        failures=failures,
        n=len(vectors.observation),
        tolerance=tolerance,
        max_abs_error=worst,
        first_action_error=first,
        field_errors={
            name: float(error[..., where].max())
            for name, where in bundle.task.action.slices().items()
        },
        batch_error=batch_error,
        provider=session.provider,
        device=f"{platform.system()} {platform.machine()}",
        versions={"onnxruntime": runtime_version(), "python": platform.python_version()},
    )


def _text(shape: list[int | None]) -> str:
    return "(" + ", ".join("B" if size is None else str(size) for size in shape) + ")"
