"""The plugins of one run: makers asked once, notices isolated, gates that fail closed."""

from __future__ import annotations

import copy
import functools
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import pluggy

from outrider.core.config import validate
from outrider.core.errors import OutriderError
from outrider.core.host.checked import (
    Caller,
    CheckedActorRegularizer,
    CheckedCriticRegularizer,
    CheckedDiagnostic,
    CheckedExplorer,
    CheckedPlanner,
    CheckedTarget,
    CheckedTransform,
    Clock,
)
from outrider.core.host.discovery import PluginRecord, manager
from outrider.core.host.hookspecs import GATES, MAKERS, NOTICES, SINGLE_MAKERS
from outrider.core.host.objects import Diagnostic, Planner, RunContext, Verdict
from outrider.core.learning.types import Explorer, Hooks

MAX_PARTS, MAX_PARTS_BYTES = 1000, 256 << 20
_PART_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")
_CARRIED = frozenset(MAKERS) - {"diagnostic", "bundle_parts"}  # what acts while a run learns
_METHODS = {
    "explorer": ("refusals", "choose"),
    "critic_target": ("target",),
    "critic_regularizer": ("losses",),
    "actor_regularizer": ("losses",),
    "gradient_transform": ("apply",),
    "planner": ("plan",),
    "diagnostic": ("examine",),
}
"""What the object of each maker must be able to do; found out at set-up, not hours later."""
_log = logging.getLogger(__name__)

C = TypeVar("C")
ContextFor = Callable[[str], RunContext]
"""Plugin name -> the context it gets (its generator is its own)."""


class PluginSession:
    """Instances of the plugins that a run's configuration names, in its order."""

    def __init__(
        self,
        plugins: Sequence[tuple[str, str, Any]],
        configs: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """Take (name, version, instance) triples, and the configurations they were made from."""
        self.configs = {name: dict(values) for name, values in (configs or {}).items()}
        self._manager = _registered(plugins)
        self._order = [name for name, _, _ in plugins]
        self.versions = {name: version for name, version, _ in plugins}
        self.switched_off: dict[str, str] = {}
        self.clock = Clock()
        self._drained = Clock()
        self._stateful: dict[str, Any] = {
            f"{name}.instance": instance
            for name, _, instance in plugins
            if hasattr(instance, "state_dict")
        }
        self._generators: dict[str, np.random.Generator] = {}

    # Makers

    def _make(self, hook: str, context_for: ContextFor) -> list[tuple[str, Any]]:
        """Ask every plugin for its object; None abstains."""
        assert hook in MAKERS
        made = []
        for name, implementation in self._implementations(hook):
            ctx = context_for(name)
            caller = Caller(name, hook, self.clock)
            value = caller.call(_bound(implementation, {"ctx": ctx}))
            if value is not None:
                made.append((name, value))
                if hook in _CARRIED:
                    self._generators[f"{name}.{hook}"] = ctx.rng
                if hook in _CARRIED and hasattr(value, "state_dict"):
                    self._stateful[f"{name}.{hook}"] = value
        if hook in SINGLE_MAKERS and len(made) > 1:
            names = " and ".join(repr(name) for name, _ in made)
            raise OutriderError(
                f"the plugins {names} both answer the hook {hook!r}, and a run takes one answer",
                where="plugins",
                fix="Take one of them out of the configuration.",
            )
        return made

    def _implementations(self, hook: str) -> list[tuple[str, pluggy.HookImpl]]:
        found = {
            impl.plugin_name: impl for impl in getattr(self._manager.hook, hook).get_hookimpls()
        }
        return [(name, found[name]) for name in self._order if name in found]

    def hooks(self, context_for: ContextFor) -> Hooks:
        """The objects of a finetuning run, each behind its checks.

        Raises:
            OutriderError: when two plugins claim what only one can give, when an explorer cannot
                work with the finetuner, or when a plugin raises.
        """
        # All makers of one plugin share one generator: a second of the same seed would repeat it.
        context_for = functools.cache(context_for)
        return Hooks(
            explorer=self._suited_explorer(context_for),
            critic_target=_only(
                self._made_and_wrapped("critic_target", context_for, CheckedTarget)
            ),
            critic_regularizers=self._made_and_wrapped(
                "critic_regularizer", context_for, CheckedCriticRegularizer
            ),
            actor_regularizers=self._made_and_wrapped(
                "actor_regularizer", context_for, CheckedActorRegularizer
            ),
            gradient_transforms=self._made_and_wrapped(
                "gradient_transform", context_for, CheckedTransform
            ),
        )

    def _suited_explorer(self, context_for: ContextFor) -> CheckedExplorer | None:
        for name, explorer in self._make("explorer", context_for):
            caller = Caller(name, "explorer", self.clock)
            checked = CheckedExplorer(explorer, caller)
            _require_methods(explorer, caller)
            _require_suited(name, checked, context_for(name))
            return checked
        return None

    def _made_and_wrapped(
        self, hook: str, context_for: ContextFor, checked: Callable[[Any, Caller], C]
    ) -> tuple[C, ...]:
        wrapped = []
        for name, value in self._make(hook, context_for):
            caller = Caller(name, hook, self.clock)
            _require_methods(value, caller)
            wrapped.append(checked(value, caller))
        return tuple(wrapped)

    def planner(self, context_for: ContextFor) -> Planner | None:
        """The planner of the run, or None."""
        return _only(self._made_and_wrapped("planner", context_for, CheckedPlanner))

    def diagnostics(self, context_for: ContextFor) -> list[tuple[str, Diagnostic]]:
        """Every diagnostic with its plugin's name."""
        found: list[tuple[str, Diagnostic]] = []
        for name, value in self._make("diagnostic", context_for):
            caller = Caller(name, "diagnostic", self.clock)
            _require_methods(value, caller)
            found.append((name, CheckedDiagnostic(value, caller)))
        return found

    def bundle_parts(self, context_for: ContextFor) -> dict[str, dict[str, bytes]]:
        """Plugin -> relative name -> content, names and sizes checked."""
        parts = {}
        for name, files in self._make("bundle_parts", context_for):
            caller = Caller(name, "bundle_parts", self.clock)
            caller.require(files, Mapping)
            if len(files) > MAX_PARTS:
                raise caller.complain(f"gave {len(files)} files, at most {MAX_PARTS} may travel")
            for path, content in files.items():
                if not (isinstance(path, str) and _PART_NAME.fullmatch(path)):
                    raise caller.complain(
                        f"gave a file name {path!r} that is not plain and relative"
                    )
                if not isinstance(content, bytes):
                    raise caller.complain(f"gave {path!r}, which is not bytes")
            if sum(map(len, files.values())) > MAX_PARTS_BYTES:
                raise caller.complain("gave more than 256 MiB in all")
            parts[name] = dict(files)
        return parts

    # Notices and the gate

    def notify(self, hook: str, **arguments: Any) -> None:
        """Tell every plugin; one that raises hears nothing more in this run.

        Each gets a copy, so that nobody who listens can change what is told or written.
        """
        assert hook in NOTICES
        for name, implementation in self._implementations(hook):
            if name in self.switched_off:
                continue
            try:
                told = copy.deepcopy(arguments)
                Caller(name, hook, self.clock).call(_bound(implementation, told))
            except OutriderError as error:
                self.switched_off[name] = str(error)
                _log.warning("%s; it is told nothing more in this run", error)

    def gate(self, **arguments: Any) -> list[tuple[str, Verdict]]:
        """Every plugin's verdict on a deployment; a crash is a refusal."""
        (hook,) = GATES
        verdicts = []
        for name, implementation in self._implementations(hook):
            try:
                told = copy.deepcopy(arguments)
                verdict = Caller(name, hook, self.clock).call(_bound(implementation, told))
            except OutriderError as error:
                verdict = Verdict(False, str(error))
            if verdict is not None:
                verdicts.append((name, _sound(name, verdict)))
        return verdicts

    # Time and state

    def timings(self) -> dict[str, float]:
        """Seconds spent so far, by `plugin.hook`."""
        return dict(self.clock.seconds)

    def drain_timings(self) -> dict[str, float]:
        """Mean milliseconds per call since the last call of this, as metrics."""
        figures = {}
        for name, calls in self.clock.calls.items():
            fresh = calls - self._drained.calls.get(name, 0)
            spent = self.clock.seconds[name] - self._drained.seconds.get(name, 0.0)
            if fresh:
                figures[f"hooks/{name}_ms"] = 1e3 * spent / fresh
        self._drained = Clock(dict(self.clock.seconds), dict(self.clock.calls))
        return figures

    def state_dict(self) -> dict[str, Any]:
        """State of every plugin object that has one, and of every generator handed out."""
        return {
            "objects": {
                name: self._of(name).call(value.state_dict)
                for name, value in self._stateful.items()
            },
            "generators": {
                name: dict(rng.bit_generator.state) for name, rng in self._generators.items()
            },
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state_dict`, for a session whose makers were asked as in the saved run.

        Raises:
            OutriderError: when the plugins that hold state are not those of the saved run, or
                when a plugin refuses its state.
        """
        objects, generators = state["objects"], state["generators"]
        _require_same(objects, self._stateful)
        _require_same(generators, self._generators)
        for name, value in self._stateful.items():
            self._of(name).call(value.load_state_dict, objects[name])
        for name, rng in self._generators.items():
            rng.bit_generator.state = dict(generators[name])

    def _of(self, name: str) -> Caller:
        plugin, _, hook = name.partition(".")
        return Caller(plugin, hook, Clock())  # saving is not what a hook costs per call


def open_session(
    plugins: Sequence[tuple[PluginRecord, Mapping[str, Any]]], where: str
) -> PluginSession:
    """Configure and instantiate plugins.

    Raises:
        OutriderError: when a configuration is refused or a plugin cannot be made.
    """
    made, configs = [], {}
    for record, values in plugins:
        config = validate(record.cls.Config, values, f"{where}.{record.name}")
        try:
            instance = record.cls(config)
        except (Exception, SystemExit) as error:  # a plugin may raise anything
            raise OutriderError(
                f"cannot be made ({type(error).__name__}: {error})", where=f"plugin {record.name}"
            ) from error
        made.append((record.name, record.version, instance))
        configs[record.name] = config.model_dump(mode="json")
    return PluginSession(made, configs)


def _registered(plugins: Sequence[tuple[str, str, Any]]) -> pluggy.PluginManager:
    made = manager()
    try:
        for name, _, instance in plugins:
            made.register(instance, name)
        made.check_pending()  # without it, a misspelt hook is never called and never missed
    except (pluggy.PluginValidationError, ValueError) as error:
        raise OutriderError(str(error), where="plugins") from error
    return made


def _bound(implementation: pluggy.HookImpl, arguments: Mapping[str, Any]) -> Callable[[], Any]:
    """The implementation with the arguments it asks for."""
    chosen = [arguments[name] for name in implementation.argnames]
    return lambda: implementation.function(*chosen)


def _require_methods(value: Any, caller: Caller) -> None:
    for method in _METHODS[caller.hook]:
        if not hasattr(value, method):
            raise caller.complain(f"gave a {type(value).__name__} without a method {method!r}")


def _only(made: tuple[C, ...]) -> C | None:
    return made[0] if made else None


def _sound(name: str, verdict: Any) -> Verdict:
    """The verdict, or a refusal where the plugin answered with something else."""
    if isinstance(verdict, Verdict) and isinstance(verdict.allow, bool):
        return verdict
    return Verdict(False, f"plugin {name} gave no verdict but {verdict!r}")


def _require_same(saved: Mapping[str, Any], mine: Mapping[str, Any]) -> None:
    for name in sorted(saved.keys() ^ mine.keys()):
        what = "the checkpoint holds no state of" if name in mine else "nothing here takes"
        raise OutriderError(
            f"{what} {name}{'' if name in mine else ', which the checkpoint holds'}",
            where="plugins",
            fix="Resume with the plugins that the run was started with.",
        )


def _require_suited(name: str, explorer: Explorer, ctx: RunContext) -> None:
    if ctx.capabilities is None:
        return
    reasons = explorer.refusals(ctx.capabilities)
    if reasons:
        raise OutriderError(
            f"cannot explore with this finetuner: {'; '.join(reasons)}", where=f"plugin {name}"
        )
