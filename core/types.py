"""The plain objects that cross the boundaries between rooms. numpy only.

Letters used in every docstring: `B` batch, `N` robots in the simulated fleet, `M` candidates,
`K` critics, `H` action horizon (chunk length), `E` executed steps of a chunk (E <= H),
`A` action size, `O` observation size, `T` steps of an episode. Units are SI, angles in rad,
quaternions w-x-y-z unless a field says otherwise.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from outrider.core.errors import OutriderError

Float = npt.NDArray[np.float32]
"""Every array that crosses a boundary is float32."""

Bool = npt.NDArray[np.bool_]
Int = npt.NDArray[np.int64]

ActFunction = Callable[[Float, Float], Float]
"""A policy at a boundary: observation (B, O), noise (B, H, A) -> executed chunk (B, E, A).

Physical units on both sides; normalisation is the policy's own affair. Pure: the same two
arguments give the same chunk, and no random number is drawn inside.
"""


@dataclass(frozen=True, slots=True)
class Field:
    """One named quantity of a Spec.

    Attributes:
        name: unique within its Spec.
        shape: shape at one instant, () for a scalar.
        unit: SI unit such as "m", "rad/s"; "" for dimensionless.
        low: lower limits, one per flattened element, or None for unbounded.
        high: upper limits, likewise.
    """

    name: str
    shape: tuple[int, ...] = ()
    unit: str = ""
    low: tuple[float, ...] | None = None
    high: tuple[float, ...] | None = None
    dtype: str = "float32"

    def __post_init__(self) -> None:
        for name, limit in (("low", self.low), ("high", self.high)):
            if limit is not None and len(limit) != self.size:
                raise OutriderError(
                    f"{name} has {len(limit)} numbers for shape {self.shape}", where=self.name
                )

    @property
    def size(self) -> int:
        """Number of elements at one instant."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Spec:
    """Ordered named fields that make up one flat vector. The order is part of the contract."""

    fields: tuple[Field, ...]

    def __post_init__(self) -> None:
        names = [f.name for f in self.fields]
        if len(set(names)) != len(names):
            raise OutriderError(f"field names repeat: {names}", where="Spec")

    @property
    def size(self) -> int:
        """Length of the flat vector."""
        return sum(f.size for f in self.fields)

    @property
    def low(self) -> Float:
        """Lower limits (size,), -inf where a field has none."""
        return self._limits("low", -np.inf)

    @property
    def high(self) -> Float:
        """Upper limits (size,), +inf where a field has none."""
        return self._limits("high", np.inf)

    def _limits(self, side: Literal["low", "high"], default: float) -> Float:
        parts = [getattr(f, side) or (default,) * f.size for f in self.fields]
        return np.asarray([x for part in parts for x in part], dtype=np.float32)

    def slices(self) -> dict[str, slice]:
        """Where each field lies in the flat vector."""
        found, start = {}, 0
        for f in self.fields:
            found[f.name] = slice(start, start + f.size)
            start += f.size
        return found

    def labels(self) -> list[str]:
        """One label per element of the flat vector: `name` or `name[i]`."""
        return [
            f.name if f.size == 1 else f"{f.name}[{i}]" for f in self.fields for i in range(f.size)
        ]

    def refusals(self, other: "Spec") -> list[str]:
        """Reasons why `other` may not be connected to this Spec; empty when it may."""
        mine, theirs = [f.name for f in self.fields], [f.name for f in other.fields]
        if mine != theirs:
            return [f"fields are {theirs}, expected {mine} in this order"]
        return [
            f"{a.name}: {what} is {getattr(b, what)!r}, expected {getattr(a, what)!r}"
            for a, b in zip(self.fields, other.fields, strict=True)
            for what in ("shape", "unit", "dtype", "low", "high")
            if getattr(a, what) != getattr(b, what)
        ]

    def to_json(self) -> list[dict[str, Any]]:
        """A JSON value from which `from_json` rebuilds an equal Spec."""
        return [
            {
                "name": f.name,
                "shape": list(f.shape),
                "unit": f.unit,
                "low": None if f.low is None else list(f.low),
                "high": None if f.high is None else list(f.high),
                "dtype": f.dtype,
            }
            for f in self.fields
        ]

    @staticmethod
    def from_json(value: Iterable[Mapping[str, Any]]) -> "Spec":
        """The inverse of `to_json`."""

        def limits(x: Any) -> tuple[float, ...] | None:
            return None if x is None else tuple(float(v) for v in x)

        return Spec(
            tuple(
                Field(
                    str(f["name"]),
                    tuple(int(n) for n in f["shape"]),
                    str(f["unit"]),
                    limits(f["low"]),
                    limits(f["high"]),
                    str(f["dtype"]),
                )
                for f in value
            )
        )


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """What a task promises: what is observed, what is commanded, at which rate, for how long.

    Attributes:
        task: full name, `family/name`, such as `robosuite/lift`.
        observation: layout of the flat observation (O,).
        action: layout of the flat action (A,), with finite limits; commands are clipped to them.
        rate_hz: control rate.
        max_steps: an episode is truncated after this many control steps.
        ends_on_success: whether success terminates the episode.
        reward: one sentence on what the reward of one step is.
    """

    task: str
    observation: Spec
    action: Spec
    rate_hz: float
    max_steps: int
    ends_on_success: bool
    reward: str


@dataclass(slots=True)
class Episode:
    """One rollout of `T` steps.

    Attributes:
        observation: (T, O), the observation before each action.
        action: (T, A), as executed, that is, after clipping.
        reward: (T,).
        success: (T,) bool.
        final_observation: (O,), the true last observation.
        terminated: the task itself ended the episode (as opposed to a time limit).
        truncated: a time limit ended it.
        seed: the seed of the reset.
        extra: further arrays with leading dimension T, such as `qpos`.
    """

    observation: Float
    action: Float
    reward: Float
    success: Bool
    final_observation: Float
    terminated: bool
    truncated: bool
    seed: int
    extra: dict[str, npt.NDArray[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.action)

    @property
    def succeeded(self) -> bool:
        """Whether any step reported success."""
        return bool(self.success.any())
