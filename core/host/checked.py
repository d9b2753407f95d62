"""Plugin objects behind a check and a clock: what a loop gets instead of the object itself."""

from __future__ import annotations

import math
import numbers
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from outrider.core.errors import OutriderError
from outrider.core.host.objects import Diagnostic, Planner, ReportSection
from outrider.core.learning.types import (
    ActorRegularizer,
    ActorView,
    Batch,
    CandidateView,
    Capabilities,
    CriticRegularizer,
    CriticTarget,
    CriticView,
    Explorer,
    GradientTransform,
    Selection,
    TargetView,
)
from outrider.core.types import Episode, Float, Int, TaskSpec

if TYPE_CHECKING:
    from torch import Tensor, nn

R = TypeVar("R")
T = TypeVar("T", bound=np.generic)


@dataclass(slots=True)
class Clock:
    """Time spent in plugin objects, by `plugin.hook`."""

    seconds: dict[str, float] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, seconds: float) -> None:
        """Count one call."""
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds
        self.calls[name] = self.calls.get(name, 0) + 1


@dataclass(frozen=True, slots=True)
class Caller:
    """Calls one plugin's object: names the plugin when it raises, and keeps the time."""

    plugin: str
    hook: str
    clock: Clock

    def call(self, function: Callable[..., R], *arguments: Any) -> R:
        """Call, timed; what the plugin raises becomes one line with the cause kept."""
        began = time.perf_counter()
        try:
            return function(*arguments)
        except OutriderError as error:  # the plugin's own words, which may not say whose they are
            where = f"{error.where}: " if error.where else ""
            raise OutriderError(
                f"its {self.hook} says: {where}{error.what}",
                where=f"plugin {self.plugin}",
                fix=error.fix,
            ) from error
        except Exception as error:  # a plugin may raise anything
            raise self.complain(f"raised {type(error).__name__}: {error}") from error
        finally:
            self.clock.add(f"{self.plugin}.{self.hook}", time.perf_counter() - began)

    def complain(self, what: str) -> OutriderError:
        """An error that names the plugin and the hook."""
        return OutriderError(
            f"its {self.hook} {what}",
            where=f"plugin {self.plugin}",
            fix="Take the plugin out of the configuration, or report this to its author.",
        )

    def require(self, value: Any, kind: type) -> None:
        """What the plugin returned is of this kind."""
        if not isinstance(value, kind):
            raise self.complain(f"gave a {type(value).__name__}, expected a {kind.__name__}")

    def require_figures(self, values: Mapping[str, Any]) -> None:
        """Every figure has a name and is a finite number."""
        self.require(values, Mapping)
        for name, value in values.items():
            if not isinstance(value, numbers.Real):
                kind = type(value).__name__
                raise self.complain(f"gave a figure {name!r} that is a {kind}, not a number")
            if not math.isfinite(value):
                raise self.complain(f"gave a figure {name!r} that is not finite")


class CheckedExplorer:
    """An explorer whose selections are checked; it sees its arrays but cannot write to them."""

    def __init__(self, inner: Explorer, caller: Caller) -> None:
        self.inner, self._caller = inner, caller
        self.n_policy, self.n_prior = caller.call(lambda: (int(inner.n_policy), int(inner.n_prior)))
        if self.n_policy < 0 or self.n_prior < 0 or self.n_policy + self.n_prior < 1:
            raise caller.complain(
                f"wants {self.n_policy} policy and {self.n_prior} prior candidates; "
                "at least one in all is needed"
            )

    def refusals(self, capabilities: Capabilities) -> list[str]:
        """What the plugin says."""
        return self._caller.call(self.inner.refusals, capabilities)

    def choose(
        self,
        observation: Float,
        candidates: CandidateView,
        values: Float,
        rng: np.random.Generator,
    ) -> Selection:
        """Pick one of M candidates for each of N robots."""
        view = CandidateView(_read_only(candidates.chunk), _read_only(candidates.source))
        selection = self._caller.call(
            self.inner.choose, _read_only(observation), view, _read_only(values), rng
        )
        self._caller.require(selection, Selection)
        self._caller.require_figures(selection.scalars)
        return Selection(self._checked_index(selection.index, values.shape), selection.scalars)

    def _checked_index(self, given: Any, shape: tuple[int, ...]) -> Int:
        index = np.asarray(given)
        _, robots, count = shape
        if index.shape != (robots,) or not np.issubdtype(index.dtype, np.integer):
            raise self._caller.complain(
                f"gave indices of shape {index.shape} and type {index.dtype}, "
                f"expected integers of shape ({robots},)"
            )
        if ((index < 0) | (index >= count)).any():
            raise self._caller.complain(f"chose a candidate outside 0 to {count - 1}")
        return index.astype(np.int64)


class CheckedTarget:
    """A critic target that is checked for shape and finiteness."""

    def __init__(self, inner: CriticTarget, caller: Caller) -> None:
        self.inner, self._caller = inner, caller

    def target(self, batch: Batch, view: TargetView) -> Tensor:
        """The regression target, (B,) or (K, B)."""
        target = self._caller.call(self.inner.target, batch, view)
        self._require_tensor(target)
        size = batch.reward.shape[0]
        if target.ndim not in (1, 2) or target.shape[-1] != size:
            raise self._caller.complain(
                f"gave a target of shape {tuple(target.shape)}, expected ({size},) or (K, {size})"
            )
        if target.requires_grad:
            raise self._caller.complain("gave a target with a gradient; detach it")
        if not bool(target.isfinite().all()):
            raise self._caller.complain("gave a target that is not finite")
        return target

    def _require_tensor(self, target: Any) -> None:
        if not hasattr(target, "isfinite"):
            raise self._caller.complain(f"gave a {type(target).__name__}, expected a tensor")


class CheckedCriticRegularizer:
    """A critic regulariser whose losses are finite scalars."""

    def __init__(self, inner: CriticRegularizer, caller: Caller) -> None:
        self.inner, self._caller = inner, caller

    def losses(self, view: CriticView) -> dict[str, Tensor]:
        """Named scalars."""
        return _checked_losses(self._caller.call(self.inner.losses, view), self._caller)


class CheckedActorRegularizer:
    """An actor regulariser whose losses are finite scalars."""

    def __init__(self, inner: ActorRegularizer, caller: Caller) -> None:
        self.inner, self._caller = inner, caller

    def losses(self, view: ActorView) -> dict[str, Tensor]:
        """Named scalars."""
        return _checked_losses(self._caller.call(self.inner.losses, view), self._caller)


class CheckedTransform:
    """A gradient transform that leaves finite gradients."""

    def __init__(self, inner: GradientTransform, caller: Caller) -> None:
        self.inner, self._caller = inner, caller

    def apply(self, group: str, parameters: Sequence[nn.Parameter]) -> dict[str, float]:
        """Edit gradients in place; returns figures."""
        figures = self._caller.call(self.inner.apply, group, parameters)
        for parameter in parameters:
            if parameter.grad is not None and not bool(parameter.grad.isfinite().all()):
                raise self._caller.complain(f"left gradients of {group!r} that are not finite")
        self._caller.require_figures(figures)
        return figures


class CheckedPlanner:
    """A planner whose subgoals have the goal's shape and are finite."""

    def __init__(self, inner: Planner, caller: Caller) -> None:
        self.inner, self._caller = inner, caller

    def plan(self, observation: Float, goal: Float, elapsed: float) -> Float:
        """The subgoal (G,)."""
        subgoal = self._caller.call(
            self.inner.plan, _read_only(observation), _read_only(goal), elapsed
        )
        try:
            checked = np.asarray(subgoal, np.float32)
        except (TypeError, ValueError):
            kind = type(subgoal).__name__
            raise self._caller.complain(f"gave a {kind}, expected an array") from None
        if checked.shape != goal.shape:
            raise self._caller.complain(
                f"gave a subgoal of shape {checked.shape}, expected {goal.shape}"
            )
        if not np.isfinite(checked).all():
            raise self._caller.complain("gave a subgoal that is not finite")
        return checked


class CheckedDiagnostic:
    """A diagnostic whose section of the report holds finite numbers."""

    def __init__(self, inner: Diagnostic, caller: Caller) -> None:
        self.inner, self._caller = inner, caller

    def examine(self, label: str, episodes: list[Episode], task: TaskSpec) -> ReportSection | None:
        """The section, or None where the diagnostic has nothing to say."""
        section = self._caller.call(self.inner.examine, label, episodes, task)
        if section is None:
            return None
        self._caller.require(section, ReportSection)
        self._caller.require_figures(section.numbers)
        for finding in section.findings:
            self._caller.require_figures({finding.what: finding.value})
        return section


def _read_only(array: npt.NDArray[T]) -> npt.NDArray[T]:
    """The same numbers through a view that refuses to be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def _checked_losses(losses: dict[str, Tensor], caller: Caller) -> dict[str, Tensor]:
    caller.require(losses, Mapping)
    for name, loss in losses.items():
        if not hasattr(loss, "isfinite"):
            raise caller.complain(f"gave a loss {name!r} that is no tensor")
        if loss.ndim != 0:
            raise caller.complain(
                f"gave a loss {name!r} of shape {tuple(loss.shape)}, not a scalar"
            )
        if not bool(loss.isfinite()):
            raise caller.complain(f"gave a loss {name!r} that is not finite")
    return losses
