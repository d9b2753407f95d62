"""Running statistics of every element of a vector over episodes that come one at a time."""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from outrider.core.types import Float, Spec


@dataclass(frozen=True, slots=True)
class ColumnRange:
    """What one element of the observation or action does over the dataset.

    Attributes:
        label: of the element.
        unit: of its field.
        low: smallest finite value.
        high: largest finite value.
        mean: of the finite values.
        std: likewise.
    """

    label: str
    unit: str
    low: float
    high: float
    mean: float
    std: float


class Columns:
    """Ranges of the elements of one flat vector, and which of them are equal to each other."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        size = spec.size
        self._low, self._high = np.full(size, np.inf), np.full(size, -np.inf)
        self._count = np.zeros(size, np.int64)
        self._mean, self._squares = np.zeros(size), np.zeros(size)
        self._hashers: list[Any] = [hashlib.blake2b(digest_size=16) for _ in range(size)]

    def add(self, rows: Float) -> None:
        """Take in the rows (T, size) of one episode; values that are not finite are left out."""
        wide = rows.astype(np.float64)
        finite = np.isfinite(wide)
        self._low = np.minimum(self._low, np.where(finite, wide, np.inf).min(axis=0))
        self._high = np.maximum(self._high, np.where(finite, wide, -np.inf).max(axis=0))
        self._combine(np.where(finite, wide, 0.0), finite)
        # 0.0 turns -0.0 into 0.0, so that equal numbers have equal bytes.
        for hasher, column in zip(self._hashers, np.ascontiguousarray(rows.T) + 0.0, strict=True):
            hasher.update(column.tobytes())

    def _combine(self, values: np.ndarray[Any, Any], finite: np.ndarray[Any, Any]) -> None:
        """Chan's update of count, mean and sum of squared deviations."""
        count = finite.sum(axis=0)
        mean = values.sum(axis=0) / np.maximum(count, 1)
        squares = (np.where(finite, values - mean, 0.0) ** 2).sum(axis=0)
        total = np.maximum(self._count + count, 1)
        delta = mean - self._mean
        self._mean = self._mean + delta * count / total
        self._squares = self._squares + squares + delta**2 * self._count * count / total
        self._count = self._count + count

    def ranges(self) -> tuple[ColumnRange, ...]:
        """One per element; zeros where no value was finite."""
        seen = self._count > 0
        low, high = np.where(seen, self._low, 0.0), np.where(seen, self._high, 0.0)
        std = np.sqrt(self._squares / np.maximum(self._count, 1))
        units = [f.unit for f in self.spec.fields for _ in range(f.size)]
        rows = zip(self.spec.labels(), units, low, high, self._mean, std, strict=True)
        return tuple(
            ColumnRange(label, unit, *map(float, figures)) for label, unit, *figures in rows
        )

    def constant(self) -> dict[str, float]:
        """Label -> value of the elements that never change."""
        return {r.label: r.low for r in self.ranges() if r.low == r.high}

    def duplicates(self) -> dict[str, str]:
        """Label -> label of an earlier element that always has the same value (not constant)."""
        constant, first, found = self.constant(), dict[bytes, str](), dict[str, str]()
        for label, hasher in zip(self.spec.labels(), self._hashers, strict=True):
            if label in constant:
                continue
            original = first.setdefault(hasher.digest(), label)
            if original != label:
                found[label] = original
        return found
