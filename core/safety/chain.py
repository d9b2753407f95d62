"""The chain of filters that every command passes, and who changed it by how much."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from outrider.core.errors import CheckFailed
from outrider.core.host.objects import Filter
from outrider.core.types import Float, Spec


@dataclass(slots=True)
class Attribution:
    """What one filter did so far.

    Attributes:
        commands: how many it changed.
        largest: the largest change of one element, in its physical unit.
    """

    commands: int = 0
    largest: float = 0.0


class HoldIfNotFinite:
    """Replaces elements that are not finite by those of the last command that was."""

    def __init__(self, spec: Spec) -> None:
        low, high = spec.low, spec.high
        middle = np.where(np.isfinite(low) & np.isfinite(high), (low + high) / 2, 0.0)
        self._last = middle.astype(np.float32)

    def apply(self, observation: Float, action: Float) -> Float:
        """Command (A,) -> the same, finite."""
        held = np.where(np.isfinite(action), action, self._last).astype(np.float32)
        self._last = held
        return held


class FieldLimits:
    """Clips every element to the limits of the action spec."""

    def __init__(self, spec: Spec) -> None:
        self._low, self._high = spec.low, spec.high

    def apply(self, observation: Float, action: Float) -> Float:
        """Command (A,) -> the same, within limits."""
        clipped: Float = np.clip(action, self._low, self._high)
        return clipped


@dataclass(slots=True)
class FilterChain:
    """Named filters in order.

    Attributes:
        filters: (name, filter).
        changed: what each did, by name.
    """

    filters: Sequence[tuple[str, Filter]]
    changed: dict[str, Attribution] = field(default_factory=dict)

    def apply(self, observation: Float, action: Float) -> Float:
        """Pass one command (A,) through all filters.

        Raises:
            CheckFailed: when a filter raises; the robot has to be stopped then.
        """
        for name, item in self.filters:
            try:
                after = item.apply(observation, action)
            except Exception as error:  # a filter may be a plugin's
                raise CheckFailed(
                    f"the filter {name!r} raised {type(error).__name__}: {error}", where="control"
                ) from error
            self._attribute(name, action, after)
            action = after
        return action

    def _attribute(self, name: str, before: Float, after: Float) -> None:
        if before is after or np.array_equal(before, after):
            return
        entry = self.changed.setdefault(name, Attribution())
        entry.commands += 1
        with np.errstate(invalid="ignore", over="ignore"):
            change = np.abs(after.astype(np.float64) - before)
        finite = change[np.isfinite(change)]
        if len(finite):
            entry.largest = max(entry.largest, float(finite.max()))


def built_in_chain(spec: Spec) -> FilterChain:
    """What every command passes, whatever else a bundle asks for: finite, and within limits."""
    return FilterChain([("finite", HoldIfNotFinite(spec)), ("limits", FieldLimits(spec))])
