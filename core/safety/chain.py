"""The chain of filters that every command passes, and who changed it by how much."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from outrider.core.errors import CheckFailed, OutriderError
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
    """Replaces elements that are not finite by those of the last command that was.

    Before there was one, by the middle of the limits, or zero where there are none.
    """

    def __init__(self, spec: Spec) -> None:
        low, high = (np.nan_to_num(side, posinf=0.0, neginf=0.0) for side in (spec.low, spec.high))
        bounded = np.isfinite(spec.low) & np.isfinite(spec.high)
        self._last: Float = np.where(bounded, low / 2 + high / 2, 0.0).astype(np.float32)

    def apply(self, observation: Float, action: Float) -> Float:
        """Command (A,) -> the same, finite."""
        held = np.where(np.isfinite(action), action, self._last).astype(np.float32)
        self._last = held
        return held


class FieldLimits:
    """Clips every element to the limits of the action spec, narrowed by an envelope.

    Args:
        spec: of the action.
        envelope: `low` and `high`, (A,) each; it never widens the spec's limits.
    """

    def __init__(self, spec: Spec, envelope: Mapping[str, Sequence[float]] | None = None) -> None:
        low, high = spec.low, spec.high
        if envelope:
            with np.errstate(over="ignore"):  # beyond float32 is no limit
                low = np.maximum(low, np.asarray(envelope["low"], np.float32))
                high = np.minimum(high, np.asarray(envelope["high"], np.float32))
        if not (low <= high).all():
            raise OutriderError(
                "the safety envelope lies outside the limits of the action",
                where="manifest.json: safety",
                fix="Export the bundle again.",
            )
        self._low, self._high = low, high

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
        """Pass one command (A,) through all filters; the given array is left as it is.

        Raises:
            CheckFailed: when a filter raises or gives something that is no such command; the robot
                has to be stopped then.
        """
        for name, item in self.filters:
            try:
                after = np.asarray(item.apply(observation, action.copy()), np.float32)
            except Exception as error:  # a filter may be a plugin's
                raise CheckFailed(
                    f"the filter {name!r} raised {type(error).__name__}: {error}",
                    where="control",
                    fix="The robot was stopped; mend the filter or leave it out.",
                ) from error
            if after.shape != action.shape:
                raise CheckFailed(
                    f"the filter {name!r} gave shape {after.shape}, expected {action.shape}",
                    where="control",
                    fix="The robot was stopped; mend the filter or leave it out.",
                )
            self._attribute(name, action, after)
            action = after
        return action

    def _attribute(self, name: str, before: Float, after: Float) -> None:
        if np.array_equal(before, after):
            return
        entry = self.changed.setdefault(name, Attribution())
        entry.commands += 1
        with np.errstate(invalid="ignore", over="ignore"):
            change = np.abs(after.astype(np.float64) - before)
        finite = change[np.isfinite(change)]
        if len(finite):
            entry.largest = max(entry.largest, float(finite.max()))


def built_in_chain(
    spec: Spec, envelope: Mapping[str, Sequence[float]] | None = None
) -> FilterChain:
    """What every command passes, whatever else a bundle asks for: finite, and within limits.

    Args:
        spec: of the action.
        envelope: the bundle's own `low` and `high`, (A,) each, which may be narrower.

    Raises:
        OutriderError: when the envelope and the limits have nothing in common.
    """
    return FilterChain([("finite", HoldIfNotFinite(spec)), ("limits", FieldLimits(spec, envelope))])
