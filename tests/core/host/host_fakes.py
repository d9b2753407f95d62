"""Plugin classes made to order, and installed distributions without pip."""

from pathlib import Path

from outrider.core.config import NoConfig
from outrider.core.host.discovery import find_plugins
from outrider.core.host.hookspecs import hookimpl
from outrider.core.host.session import PluginSession
from outrider.core.testing import fake_run_context

HEAD = """
from outrider.core.config import NoConfig, StrictModel
from outrider.core.host.hookspecs import hookimpl
from outrider.core.host.objects import *
from pydantic import BaseModel
"""

GOOD = """
class Good:
    name, api, Config = "good", 1, NoConfig
    def __init__(self, config): self.config = config
    @hookimpl
    def metrics(self, step): ...
"""


def install(site: Path, name: str, body: str, plugin: str = "good", version: str = "1.2"):
    """Write a module and its dist-info into `site`, a folder on sys.path."""
    module = name.replace("-", "_")
    (site / f"{module}.py").write_text(HEAD + body)
    info = site / f"{module}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(f"[outrider.plugins]\n{plugin} = {module}:Good\n")


def record_of(name: str, **options):
    """The record of one plugin among all that are installed."""
    (found,) = [r for r in find_plugins(**options) if r.name == name]
    return found


def plugin(name: str = "fake", **methods):
    """A plugin class with these methods as hooks."""

    def make(self, config=None):
        self.config = config

    hooks = {hook: hookimpl(method) for hook, method in methods.items()}
    members = {"name": name, "api": 1, "Config": NoConfig, "__init__": make, **hooks}
    return type("Fake", (), members)


def session_of(*classes):
    """A session of instances of these classes, in order."""
    return PluginSession([(cls.name, "1", cls()) for cls in classes])


def context(name: str = ""):
    """The same context for every plugin."""
    return fake_run_context()
