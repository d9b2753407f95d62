"""The manifest of a bundle: the typed contract beside the graph. Schema version 1."""

import json
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from outrider.core.config import StrictModel, validate
from outrider.core.errors import OutriderError

SCHEMA_VERSION = 1
_FIX = "Copy or export the bundle again."


class Member(StrictModel):
    """A file of the bundle: its SHA-256 in hexadecimal and its size in bytes."""

    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    size: NonNegativeInt


class Graph(StrictModel):
    """The ONNX graph.

    Attributes:
        file: member that holds it.
        opset: of the default domain.
        inputs: name -> shape; None stands for the batch.
        outputs: likewise.
        dtype: of all inputs and outputs.
    """

    file: str = "policy.onnx"
    opset: PositiveInt
    inputs: dict[str, list[int | None]]
    outputs: dict[str, list[int | None]]
    dtype: Literal["float32"] = "float32"


class Parity(StrictModel):
    """How the graph was proved equal to the policy that it was exported from.

    Attributes:
        n: recorded observations.
        tolerance: largest allowed error of an action element, in normalised units; at most 1,
            which is half of an action's range and proves nothing.
        max_abs_error: the error measured at export, in normalised units.
        provider: on which it was measured.
    """

    n: PositiveInt
    tolerance: float = Field(gt=0, le=1)
    max_abs_error: NonNegativeFloat
    provider: str


class Manifest(StrictModel):
    """Everything that a robot must know before it runs the graph.

    Attributes:
        schema_version: of this manifest.
        name: of the policy.
        version: MAJOR.MINOR.PATCH.
        description: one sentence for people.
        task: specs as JSON: observation, action, rate_hz, max_steps, ends_on_success, reward.
        horizon: H, steps of the noise.
        execute: E, steps of a chunk that are executed.
        graph: the ONNX graph.
        action_scale: physical units per normalised unit, (A,); errors are judged in the latter.
        parity: proof at export.
        denoising: settings of the sampler, for people; they are inside the graph.
        precision: variants of the graph with their measured errors.
        robot: profile of the robot that it was made for.
        safety: the envelope of commands, `low` and `high`, (A,) each; it narrows the limits of
            the action spec and never widens them. Empty: those limits alone.
        plugins: name -> version of the plugins that took part.
        provenance: recipe, code version, digest of the data, seeds.
        evaluation: success with interval, return, smoothness.
        members: every other file of the bundle.
    """

    schema_version: Literal[1] = 1
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    version: str = Field(pattern=r"^\d+\.\d+\.\d+$")
    description: str = ""
    task: dict[str, Any]
    horizon: PositiveInt
    execute: PositiveInt
    graph: Graph
    action_scale: list[PositiveFloat]
    parity: Parity
    denoising: dict[str, Any] = Field(default_factory=dict)
    precision: dict[str, dict[str, Any]] = Field(default_factory=dict)
    robot: dict[str, Any] = Field(default_factory=dict)
    safety: dict[str, list[float]] = Field(default_factory=dict)
    plugins: dict[str, str] = Field(default_factory=dict)
    provenance: dict[str, Any] = Field(default_factory=dict)
    evaluation: dict[str, Any] = Field(default_factory=dict)
    members: dict[str, Member] = Field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """JSON with sorted keys, so that equal manifests have equal bytes."""
        values = self.model_dump(mode="json")
        return (json.dumps(values, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


def parse_manifest(content: bytes, where: str) -> Manifest:
    """Read a manifest.

    Raises:
        OutriderError: when it is not JSON, of a schema that this Outrider does not know, or a key
            is missing, unknown or wrong.
    """
    try:
        values = json.loads(content, object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise OutriderError(
            f"manifest.json is not JSON ({short(error)})", where=where, fix=_FIX
        ) from error
    if not isinstance(values, Mapping):
        raise OutriderError("manifest.json is no mapping", where=where, fix=_FIX)
    found = values.get("schema_version")
    if type(found) is not int or found != SCHEMA_VERSION:
        raise OutriderError(
            f"the bundle has schema version {short(repr(found))}, "
            f"this Outrider knows {SCHEMA_VERSION}",
            where=where,
            fix="Update Outrider on this machine, or export the bundle again.",
        )
    try:
        return validate(Manifest, values, "manifest.json")
    except OutriderError as error:
        what = f"{short(error.where)}: {short(error.what)}"
        raise OutriderError(what, where=where, fix=short(error.fix or _FIX)) from error


def short(text: object, most: int = 200) -> str:
    """A bundle from elsewhere must not fill the screen with its own values."""
    line = str(text)
    return line if len(line) <= most else f"{line[:most]}..."


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("a key occurs twice")
    return values


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is no JSON number")
