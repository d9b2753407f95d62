"""The plugin under test, and how the checks make instances and sessions of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outrider.core.config import validate
from outrider.core.host.discovery import implemented_hooks
from outrider.core.host.objects import RunContext
from outrider.core.host.session import PluginSession
from outrider.core.learning.types import Capabilities, Hooks
from outrider.core.testing.fakes import fake_capabilities, fake_run_context


@dataclass(frozen=True, slots=True)
class Subject:
    """A plugin class with the configuration and the circumstances to test it in.

    Attributes:
        plugin: the class.
        config: what a recipe would say; defaults fill the rest.
        capabilities: of the finetuner that its makers are to work with.
        run: the run folder; need not exist for plugins that write nothing.
    """

    plugin: Any
    config: Mapping[str, Any] = field(default_factory=dict)
    capabilities: Capabilities = field(default_factory=fake_capabilities)
    run: Path = Path("fake-run")

    @property
    def name(self) -> str:
        """The plugin's name."""
        return str(self.plugin.name)

    @property
    def hooks(self) -> tuple[str, ...]:
        """The hooks that it implements."""
        return implemented_hooks(self.plugin)

    def instance(self) -> Any:
        """A fresh instance, made as the host makes it."""
        return self.plugin(validate(self.plugin.Config, self.config, f"plugin {self.name}"))

    def session(self) -> PluginSession:
        """A fresh session with this plugin alone."""
        return PluginSession([(self.name, "", self.instance())])

    def context(self, _: str = "", *, seed: int = 0) -> RunContext:
        """The context that its makers get."""
        return fake_run_context(self.run, seed=seed, capabilities=self.capabilities)

    def made(self, *, seed: int = 0) -> tuple[PluginSession, Hooks]:
        """A fresh session and its objects, checked by the host as in a run.

        Raises:
            OutriderError: when a maker raises, or when its explorer refuses `capabilities`.
        """
        session = self.session()
        return session, session.hooks(lambda name: self.context(name, seed=seed))
