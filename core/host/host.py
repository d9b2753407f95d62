"""The host: what is installed, what it offers, and the plugins of one run."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from outrider.core.errors import OutriderError, nearest
from outrider.core.host.discovery import PluginRecord, find_plugins
from outrider.core.host.hookspecs import OFFERS
from outrider.core.host.objects import (
    CommandProvider,
    FilterProvider,
    FinetunerProvider,
    PolicyProvider,
    ReaderProvider,
    TaskProvider,
)
from outrider.core.host.session import PluginSession, open_session

PROVIDERS = {
    "tasks": TaskProvider,
    "policies": PolicyProvider,
    "finetuners": FinetunerProvider,
    "filters": FilterProvider,
    "readers": ReaderProvider,
    "commands": CommandProvider,
}
"""What each offer is a list of."""

_log = logging.getLogger(__name__)
_ONE = {
    "tasks": "task family",
    "policies": "policy",
    "finetuners": "finetuner",
    "filters": "filter",
    "readers": "reader",
    "commands": "command",
}


class Host:
    """Installed plugins and their offers."""

    def __init__(self, records: Sequence[PluginRecord]) -> None:
        self.records = tuple(records)
        self._offers: dict[str, dict[str, Any]] = {}
        self._givers: dict[tuple[str, str], PluginRecord] = {}

    @classmethod
    def discover(
        cls, plugin_path: Sequence[Path] = (), without: Collection[str] = frozenset()
    ) -> Host:
        """Examine what is installed, plus loose files, less the plugins named in `without`."""
        return cls(find_plugins(plugin_path, without))

    def offers(self, kind: str) -> dict[str, Any]:
        """Providers of one kind by name, from every plugin that is ready.

        A plugin whose offer raises is put into error and the others go on.

        Raises:
            OutriderError: when two plugins offer the same name.
        """
        if kind not in OFFERS:
            raise OutriderError(f"there is no offer {kind!r}", fix=nearest(kind, list(OFFERS)))
        if kind not in self._offers:
            self._offers[kind] = self._gather(kind)
        return dict(self._offers[kind])

    def _gather(self, kind: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for record in self.records:
            if record.state != "ready" or kind not in record.hooks:
                continue
            try:
                providers = _asked(record, kind)
            except (Exception, SystemExit) as error:  # a plugin may raise anything
                reason = f"its offer of {kind} raised {type(error).__name__}: {error}"
                self._replace(record, record.failed(" ".join(reason.split())))
                continue
            for provider in providers:
                self._take(kind, provider, record, found)
        return found

    def _take(self, kind: str, provider: Any, record: PluginRecord, found: dict[str, Any]) -> None:
        name = provider_name(provider)
        if name in found:
            other = self._givers[kind, name]
            raise OutriderError(
                f"the plugins {other.name!r} ({other.distribution}) and {record.name!r} "
                f"({record.distribution}) both offer the {_ONE[kind]} {name!r}",
                where="plugins",
                fix="Leave one out with --without NAME, or uninstall it.",
            )
        self._givers[kind, name] = record
        found[name] = provider

    def _replace(self, old: PluginRecord, new: PluginRecord) -> None:
        self.records = tuple(new if record is old else record for record in self.records)

    def provider(self, kind: str, name: str) -> Any:
        """The provider of a name.

        Raises:
            OutriderError: when nobody offers it; it names the nearest, and plugins in error.
        """
        offers = self.offers(kind)
        if name not in offers:
            raise OutriderError(
                f"there is no {_ONE[kind]} {name!r}",
                fix=f"{nearest(name, list(offers))}{self._broken()}",
            )
        return offers[name]

    def task(self, full_name: str) -> tuple[TaskProvider, str]:
        """The family that a task `family/name` belongs to, and its name there."""
        family, slash, name = full_name.partition("/")
        if not slash or not name:
            raise OutriderError(
                f"{full_name!r} is no task", fix="Tasks are named family/name: see outrider tasks."
            )
        provider: TaskProvider = self.provider("tasks", family)
        return provider, name

    def reader(self, path: Path) -> ReaderProvider | None:
        """The reader that recognises a dataset, or None."""
        for name, provider in self.offers("readers").items():
            try:
                recognized = provider.recognizes(path)
            except Exception as error:  # a plugin may raise anything
                giver = self._givers["readers", name].name
                kind = type(error).__name__
                _log.warning("plugin %s: its reader %r raised %s: %s", giver, name, kind, error)
                continue
            if recognized:
                found: ReaderProvider = provider
                return found
        return None

    def session(self, plugins: Mapping[str, Mapping[str, Any]], where: str) -> PluginSession:
        """The plugins of a run, configured.

        Args:
            plugins: plugin name -> its configuration, in order.
            where: how a reader finds the section, such as `lift.yaml: plugins`.

        Raises:
            OutriderError: for a plugin that is unknown or in error, or a configuration that its
                Config refuses.
        """
        known: dict[str, PluginRecord] = {}
        for record in self.records:  # of two with one name, the first is the one in use
            known.setdefault(record.name, record)
        for name in plugins:
            if name not in known:
                options = [r.name for r in self.records if r.state == "ready"]
                raise OutriderError(
                    f"there is no plugin {name!r}",
                    where=where,
                    fix=f"{nearest(name, options)}{self._broken()}",
                )
            if known[name].state != "ready":
                reason = known[name].reason or "it was left out with --without"
                raise OutriderError(f"the plugin cannot be used: {reason}", where=f"{where}.{name}")
        return open_session([(known[name], config) for name, config in plugins.items()], where)

    def _broken(self) -> str:
        broken = [f"{r.name} ({r.reason})" for r in self.records if r.state == "error"]
        return f". In error: {'; '.join(broken)}" if broken else ""


def provider_name(provider: Any) -> str:
    """The name that an offer is found by."""
    name: str = provider.family if isinstance(provider, TaskProvider) else provider.name
    return name


def _asked(record: PluginRecord, kind: str) -> list[Any]:
    """What a plugin offers of one kind, each of the right type and under a name of its own."""
    providers = list(getattr(record.cls(record.cls.Config()), kind)())
    for provider in providers:
        if not isinstance(provider, PROVIDERS[kind]):
            wanted = PROVIDERS[kind].__name__
            raise TypeError(f"got a {type(provider).__name__}, expected a {wanted}")
    names = [provider_name(provider) for provider in providers]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"the {_ONE[kind]} {name!r} is offered twice")
    return providers
