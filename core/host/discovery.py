"""Finding plugins and judging whether they can take part; one that is broken never stops others."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import inspect
import re
import sys
import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pluggy
from pydantic import BaseModel

from outrider.core.errors import OutriderError, nearest
from outrider.core.host import hookspecs

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
HOOKS = (*hookspecs.OFFERS, *hookspecs.MAKERS, *hookspecs.NOTICES, *hookspecs.GATES)


@dataclass(frozen=True, slots=True)
class PluginRecord:
    """What is known of one plugin.

    Attributes:
        name: unique among plugins.
        version: of the distribution, or "" for a loose file.
        distribution: that it came with, or the path of a loose file.
        api: the plugin API version that it declares; None where it could not be read.
        hooks: the hooks that it implements.
        state: `ready`, `disabled` (left out by request) or `error`.
        reason: one line that says why it is in error.
        cls: the plugin class; None where it could not be loaded.
    """

    name: str
    version: str
    distribution: str
    api: int | None
    hooks: tuple[str, ...]
    state: Literal["ready", "disabled", "error"]
    reason: str = ""
    cls: Any = None

    def failed(self, reason: str) -> PluginRecord:
        """The same plugin, in error."""
        return PluginRecord(
            self.name, self.version, self.distribution, self.api, self.hooks, "error", reason
        )


def find_plugins(
    plugin_path: Sequence[Path] = (), without: Collection[str] = frozenset()
) -> tuple[PluginRecord, ...]:
    """Examine every installed plugin and every loose file, in order of name.

    Raises:
        OutriderError: when a path of `plugin_path` does not exist, or `without` names nobody.
    """
    found = [*_installed(without), *_loose(plugin_path, without)]
    names = [record.name for record in found]
    for name in sorted(set(without) - set(names)):
        raise OutriderError(
            f"there is no plugin {name!r}", where="--without", fix=nearest(name, names)
        )
    return tuple(sorted(_without_clashes(found), key=lambda record: record.name))


def _installed(without: Collection[str]) -> Iterator[PluginRecord]:
    for point in sorted(importlib.metadata.entry_points(group=hookspecs.GROUP), key=_precedence):
        distribution = point.dist.name if point.dist else "unknown"
        version = point.dist.version if point.dist else ""
        blank = PluginRecord(point.name, version, distribution, None, (), "disabled")
        if point.name in without:
            yield blank
            continue
        try:
            cls = point.load()
        except (Exception, SystemExit) as error:  # a plugin's import may fail in any way
            yield blank.failed(f"cannot import {point.value} ({_one_line(error)})")
            continue
        yield _examine(cls, blank, point.name)


def _precedence(point: importlib.metadata.EntryPoint) -> tuple[bool, str, str]:
    """Built-ins first, so that nobody takes a name of theirs by standing earlier on sys.path."""
    distribution = point.dist.name if point.dist else ""
    return distribution != "outrider", distribution, point.name


def _loose(plugin_path: Sequence[Path], without: Collection[str]) -> Iterator[PluginRecord]:
    for path in plugin_path:
        if not path.exists():
            raise OutriderError("no such file or folder", where=f"--plugin-path {path}")
        files = sorted(path.glob("[!_]*.py")) if path.is_dir() else [path]
        for file in files:  # in a folder, a name that begins with _ is a helper, not a plugin
            yield from _loose_file(file, without)


def _loose_file(file: Path, without: Collection[str]) -> Iterator[PluginRecord]:
    blank = PluginRecord(file.stem, "", str(file), None, (), "disabled")
    name = f"outrider_loose_{file.stem}_{zlib.crc32(str(file.resolve()).encode()):08x}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        yield blank.failed("not a Python file")
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pydantic look their module up
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # a plugin's import may fail in any way
        del sys.modules[name]
        yield blank.failed(f"cannot import ({_one_line(error)})")
        return
    classes = [
        value
        for value in vars(module).values()
        if inspect.isclass(value) and value.__module__ == name and _looks_like_plugin(value)
    ]
    if not classes:
        yield blank.failed("holds no plugin: a class with name, api and Config")
    for cls in classes:
        own = str(getattr(cls, "name", file.stem))
        record = PluginRecord(own, "", str(file), None, (), "disabled")
        yield record if own in without else _examine(cls, record, own)


def implemented_hooks(cls: Any) -> tuple[str, ...]:
    """The hooks that a plugin class implements, in the order of the specification."""
    return tuple(name for name in HOOKS if _is_hook(cls, name))


def _looks_like_plugin(cls: type) -> bool:
    return hasattr(cls, "api") or any(_is_hook(cls, name) for name in dir(cls))


def _examine(cls: Any, blank: PluginRecord, expected_name: str) -> PluginRecord:
    """Judge a plugin class by the contract of `hookspecs`."""
    api = getattr(cls, "api", None)
    record = PluginRecord(
        expected_name,
        blank.version,
        blank.distribution,
        api if isinstance(api, int) else None,
        implemented_hooks(cls),
        "ready",
        cls=cls,
    )
    reason = objection(cls, expected_name)
    return record.failed(reason) if reason else record


def objection(cls: Any, expected_name: str) -> str:
    """Why the host cannot take a plugin class, in one line; "" where it can."""
    if not inspect.isclass(cls):
        return f"the entry point names a {type(cls).__name__}, not a plugin class"
    name, api = getattr(cls, "name", None), getattr(cls, "api", None)
    if name != expected_name:
        return f"its class calls itself {name!r}, its entry point {expected_name!r}"
    if not _NAME.fullmatch(expected_name):
        return f"its name {expected_name!r} must consist of letters, digits, '-' and '_'"
    if api != hookspecs.API:
        return f"it is made for plugin API {api!r}, this Outrider has {hookspecs.API}"
    config = getattr(cls, "Config", None)
    if not (inspect.isclass(config) and issubclass(config, BaseModel)):
        return "it has no Config (a pydantic model)"
    if config.model_config.get("extra") != "forbid":
        return "its Config accepts unknown keys (derive it from outrider.core.config.StrictModel)"
    return _missing_requirement(cls) or _bad_hook(cls)


def _missing_requirement(cls: Any) -> str:
    requires = getattr(cls, "requires", ())
    if isinstance(requires, str):
        return f"its requires is the string {requires!r}, expected a tuple of module names"
    for module in requires:
        try:
            there = importlib.util.find_spec(module) is not None
        except (ImportError, ValueError):
            there = False
        if not there:
            return f"it requires the module {module!r}, which is not installed"
    return ""


def _bad_hook(cls: Any) -> str:
    marked = [name for name in dir(cls) if _is_hook(cls, name)]
    for name in marked:
        reason = _hook_objection(cls, name)
        if reason:
            return reason
    if not marked:
        return "it implements no hook (mark its methods with hookimpl)"
    for name in HOOKS:
        if name not in marked and inspect.isroutine(getattr(cls, name, None)):
            return f"its method {name!r} has the name of a hook but is not marked with hookimpl"
    return ""


def _hook_objection(cls: Any, name: str) -> str:
    if name not in HOOKS:
        return f"there is no hook {name!r}; {nearest(name, list(HOOKS))}"
    options = getattr(cls, name).outrider_impl
    if options.get("wrapper") or options.get("hookwrapper"):
        return f"its hook {name!r} is a wrapper, and hooks of Outrider cannot be wrapped"
    allowed = list(inspect.signature(getattr(hookspecs, name)).parameters)
    for parameter in hook_parameters(cls, name):
        if parameter.name not in allowed:
            return f"its hook {name!r} asks for {parameter.name!r}; " + (
                nearest(parameter.name, allowed) if allowed else "it takes no argument"
            )
        if parameter.default is not parameter.empty:
            return f"its hook {name!r} gives {parameter.name!r} a default, so it would never get it"
    return ""


def hook_parameters(cls: type, name: str) -> list[inspect.Parameter]:
    """The parameters of a plugin's hook, less the instance."""
    member = inspect.getattr_static(cls, name)
    parameters = list(inspect.signature(getattr(cls, name)).parameters.values())
    return parameters if isinstance(member, staticmethod | classmethod) else parameters[1:]


def _is_hook(cls: Any, name: str) -> bool:
    return hasattr(getattr(cls, name, None), "outrider_impl")


def _without_clashes(found: list[PluginRecord]) -> Iterator[PluginRecord]:
    first: dict[str, PluginRecord] = {}
    for record in found:
        if record.name in first:
            other = first[record.name].distribution
            yield record.failed(f"{other} has a plugin of the same name, which comes first")
        else:
            first[record.name] = record
            yield record


def _one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def manager() -> pluggy.PluginManager:
    """A pluggy manager that knows the hook specifications."""
    made = pluggy.PluginManager("outrider")
    made.add_hookspecs(hookspecs)
    return made
